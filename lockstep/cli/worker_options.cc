#include "lockstep/cli/worker_options.h"

#include <algorithm>
#include <thread>

namespace lockstep::cli {

DeclaredWorker::DeclaredWorker()
    : threads(static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))),
      table("worker", "LOCKSTEP_WORKER_") {
  table.Text("dispatcher", &dispatcher, "HOST:PORT",
             "The server whose data service the worker works for: its --listen address.");
  table.Text("listen", &listen, "HOST:PORT", "Where consumers call. Port 0: any.");
  table.Text("advertise", &advertise, "HOST:PORT",
             "What consumers are told to call; empty: as it listens.");
  table.List("allow-uid", &allow_uids, "USER",
             "A user of this host, by name or number, who may call at an address of the loopback\n"
             "interface, beside root and the user who runs the worker. any: everybody.");
  table.Switch("insecure-network", &insecure_network,
               "Allow an address that other hosts can reach, although nothing is encrypted or\n"
               "authenticated: whoever reaches it can read what the worker may read, and run what\n"
               "--allow-function allows.");
  table.List(
      "allow-path", &allow_paths, "DIR",
      "Datasets may read files below this directory; without any, all that the process may.");
  table.List("tag", &tags, "TEXT", "For people: shown by `lockstep data`.");
  table.Text(
      "python", &python, "PROGRAM",
      "Runs the Python functions of datasets; it must be able to import lockstep, NumPy and\n"
      "the functions' modules, which it does not look for in the working directory.\n"
      "Empty: none are run.");
  table.List("allow-function", &allow_functions, "MODULE[:NAME]",
             "Datasets may have this Python function run here, or any function that this module\n"
             "defines. Without any, datasets with Python functions are refused: a dataset is what\n"
             "anybody who reaches the server sends.");
  table.Count("threads", &threads, "Segments that are run at a time.");
  table.Bytes("cache-bytes", &options.cache.bytes_max,
              "Elements that are made and not read yet; beyond that nothing is made ahead.");
  table.Duration("drain-time", &options.drain_time,
                 "How long a worker that ends lets its consumers go elsewhere.");
  table.Duration("end-timeout", &end_timeout,
                 "How long what it runs may take to stop after that; then it ends without.");
}

}  // namespace lockstep::cli

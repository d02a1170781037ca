#include "lockstep/cli/worker_options.h"

#include <algorithm>
#include <thread>

namespace lockstep::cli {

DeclaredWorker::DeclaredWorker()
    : threads(static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))),
      table("worker", "LOCKSTEP_WORKER_") {
  table
      .Text("dispatcher", &dispatcher, "HOST:PORT",
            "Work for the data service of this server (its --listen address or join string); of "
            "several, with commas between them or in a file (file:///PATH), the one that leads. "
            "Without it, the worker uses LOCKSTEP_COORDINATOR.")
      .Common();
  table.Text("listen", &listen, "HOST:PORT", "Address for consumers. Port 0 picks a free port.")
      .Common();
  table
      .Text("advertise", &advertise, "HOST:PORT",
            "Address to give to consumers. Default: the address the worker listens on.")
      .Common();
  table.List("allow-uid", &allow_uids, "USER",
             "Let this user of this host (name or number) connect to loopback addresses. Root and "
             "the user who runs the worker always can. any: everybody.");
  table
      .Switch("insecure-network", &insecure_network,
              "At an address that other hosts can reach, require neither TLS nor the worker's "
              "secret: anyone who reaches it can read what the worker can read, and run what "
              "--allow-function allows.")
      .Common();
  table
      .List("allow-path", &allow_paths, "DIR",
            "Let datasets read files below this directory only. Default: all files that the "
            "process can read.")
      .Common();
  table.List("tag", &tags, "TEXT", "Tag the worker in the output of `lockstep data`.");
  table
      .Text("python", &python, "PROGRAM",
            "Python interpreter for the functions of datasets. It must be able to import "
            "lockstep, NumPy and the functions' modules; the working directory is not searched "
            "for modules. Empty: run no functions.")
      .Common();
  table
      .List("allow-function", &allow_functions, "MODULE[:NAME]",
            "Let datasets run this Python function, or all functions defined in this module. By "
            "default, datasets with Python functions are refused, since anyone who reaches the "
            "server can send a dataset.")
      .Common();
  table.Count("threads", &threads, "Number of segments to produce at a time.").Common();
  table
      .Bytes("cache-bytes", &options.cache.bytes_max,
             "Maximum size of elements produced and not yet read. At this size, the worker stops "
             "producing ahead.")
      .Common();
  table.Duration("drain-time", &options.drain_time,
                 "On shutdown, give consumers this much time to move to other workers.");
  table.Duration("end-timeout", &end_timeout,
                 "After --drain-time, wait this long for running work to stop, then exit anyway.");
}

}  // namespace lockstep::cli

// `lockstep worker`: a data worker, until it is told to end.
#include "lockstep/data/worker.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "asio/signal_set.hpp"
#include "lockstep/cli/subcommands.h"
#include "lockstep/config/option_table.h"
#include "lockstep/engine/function_pool.h"
#include "lockstep/runtime/loop.h"

namespace lockstep::cli {
namespace {

struct WorkerArguments {
  WorkerArguments();
  std::string dispatcher = "127.0.0.1:7070";
  std::string listen = "127.0.0.1:0";
  std::string advertise;
  std::vector<std::string> allow_paths;
  std::vector<std::string> tags;
  std::string python = "python3";
  int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  data::WorkerOptions options;
  config::OptionTable table;
};

WorkerArguments::WorkerArguments() : table("worker", "LOCKSTEP_WORKER_") {
  table.Text("dispatcher", &dispatcher, "HOST:PORT",
             "The server whose data service the worker works for: its --listen address.");
  table.Text("listen", &listen, "HOST:PORT",
             "Where consumers call. Port 0: any. Nothing is encrypted or authenticated: whoever\n"
             "reaches it can read what the worker may read.");
  table.Text("advertise", &advertise, "HOST:PORT",
             "What consumers are told to call; empty: as it listens.");
  table.List(
      "allow-path", &allow_paths, "DIR",
      "Datasets may read files below this directory; without any, all that the process may.");
  table.List("tag", &tags, "TEXT", "For people: shown by `lockstep data`.");
  table.Count("threads", &threads, "Segments that are run at a time.");
  table.Text("python", &python, "PROGRAM",
             "What runs the Python functions of datasets; it finds the modules that they name.");
  table.Bytes("cache-bytes", &options.cache.bytes_max,
              "Elements that are made and not read yet; beyond that nothing is made ahead.");
  table.Duration("drain-time", &options.drain_time,
                 "How long a worker that ends lets its consumers go elsewhere.");
}

// Ends the worker's loop, at the second signal the process.
class Signals {
 public:
  Signals(runtime::Loop& loop, std::function<void(int)> drain)
      : signals_(loop.io(), SIGTERM, SIGINT), drain_(std::move(drain)) {
    Await();
  }

 private:
  void Await() {
    signals_.async_wait([this](const asio::error_code& error, int signal) {
      if (error) return;
      if (std::exchange(came_, true)) std::_Exit(128 + signal);
      drain_(signal);
      Await();
    });
  }

  asio::signal_set signals_;
  const std::function<void(int)> drain_;
  bool came_ = false;
};

int RunWorker(WorkerArguments& given, Invocation& invocation) {
  const auto say = [&](const std::string& text) {
    invocation.err << "lockstep worker: " << text << std::endl;
  };
  const auto usage = [&](const absl::Status& why) {
    say(std::string(why.message()));
    return kExitUsage;
  };
  if (absl::Status status = given.table.Resolve(invocation.variables); !status.ok()) {
    return usage(status);
  }
  auto dispatcher = runtime::ParseAddress(given.dispatcher);
  if (!dispatcher.ok()) return usage(dispatcher.status());
  data::WorkerOptions options = given.options;
  options.dispatcher = *std::move(dispatcher);
  options.listen = given.listen;
  options.advertise = given.advertise;
  options.allow_paths = given.allow_paths;
  options.tags = given.tags;
  options.cache.threads = given.threads;
  options.functions =
      std::make_shared<engine::FunctionPool>(engine::FunctionPoolOptions{.python = given.python});
  options.notice = say;

  runtime::Loop loop;
  absl::Status failed;
  auto worker = data::Worker::Start(loop, std::move(options), [&](absl::Status why) {
    failed = std::move(why);
    loop.Stop();
  });
  if (!worker.ok()) {
    say(std::string(worker.status().message()));
    return kExitFailed;
  }
  invocation.out << "lockstep worker answers at " << (*worker)->address() << std::endl;
  const Signals signals(loop, [&](int signal) {
    say(absl::StrCat("signal ", signal, ": draining; a second one ends the worker at once"));
    (*worker)->Drain([&] { loop.Stop(); });
  });
  loop.Run();
  if (!failed.ok()) {
    say(std::string(failed.message()));
    return kExitFailed;
  }
  return kExitOk;
}

}  // namespace

void AddWorker(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand(
      "worker", "Make elements of datasets for the consumers of a server's data service");
  auto given = std::make_shared<WorkerArguments>();
  given->table.AddTo(*command);
  command->callback([given, &invocation] { invocation.exit_code = RunWorker(*given, invocation); });
}

}  // namespace lockstep::cli

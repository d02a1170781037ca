// `lockstep worker`: a data worker, until it is told to end.
#include "lockstep/data/worker.h"

#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "asio/signal_set.hpp"
#include "lockstep/cli/subcommands.h"
#include "lockstep/cli/worker_options.h"
#include "lockstep/engine/function_pool.h"
#include "lockstep/runtime/loop.h"
#include "lockstep/runtime/loopback.h"
#include "lockstep/runtime/open_files.h"

namespace lockstep::cli {
namespace {

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

// Ends the process with this code unless it is gone in time: what hangs in a file system cannot be
// told to stop, and nothing is lost with it.
class EndLimit {
 public:
  EndLimit(absl::Duration limit, int code, std::function<void()> told)
      : thread_([this, limit, code, told = std::move(told)] {
          std::unique_lock lock(mutex_);
          if (changed_.wait_for(lock, absl::ToChronoMilliseconds(limit),
                                [this] { return gone_; })) {
            return;
          }
          told();
          std::_Exit(code);
        }) {}
  ~EndLimit() {
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  EndLimit(const EndLimit&) = delete;
  EndLimit& operator=(const EndLimit&) = delete;

 private:
  std::mutex mutex_;  // covers what follows
  std::condition_variable changed_;
  bool gone_ = false;
  std::thread thread_;
};

// FAILED_PRECONDITION: other hosts could reach it, and that is not allowed.
absl::Status CheckListen(runtime::Loop& loop, const DeclaredWorker& given) {
  if (given.insecure_network) return absl::OkStatus();
  // One that cannot be read is complained about by whoever listens there.
  const auto address = runtime::ParseAddress(given.listen);
  return address.ok() ? runtime::CheckLoopback(loop.io(), *address) : absl::OkStatus();
}

int RunWorker(DeclaredWorker& given, Invocation& invocation) {
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
  auto allowance = engine::FunctionAllowance::Parse(given.allow_functions);
  if (!allowance.ok()) {
    say(absl::StrCat("--allow-function ", std::string(allowance.status().message())));
    return kExitUsage;
  }
  const auto functions = std::make_shared<engine::FunctionPool>(
      engine::FunctionPoolOptions{.python = given.python, .allowance = *std::move(allowance)});
  if (!given.python.empty()) options.functions = functions;
  options.notice = say;

  if (!runtime::RaiseOpenFilesLimit()) {
    say("the limit of open files (RLIMIT_NOFILE) stays as it is");
  }

  runtime::Loop loop;
  if (absl::Status status = CheckListen(loop, given); !status.ok()) {
    say(absl::StrCat("--listen ", std::string(status.message())));
    return kExitUsage;
  }
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
  const int code = failed.ok() ? kExitOk : kExitFailed;
  if (!failed.ok()) say(std::string(failed.message()));
  const EndLimit limit(given.end_timeout, code, [&] {
    say(absl::StrCat("segments that run did not stop within ",
                     absl::FormatDuration(given.end_timeout),
                     " (end_timeout): it ends without them; others make them again"));
  });
  functions->Stop();
  worker->reset();
  return code;
}

}  // namespace

void AddWorker(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand(
      "worker", "Make elements of datasets for the consumers of a server's data service");
  auto given = std::make_shared<DeclaredWorker>();
  given->table.AddTo(*command);
  command->callback([given, &invocation] { invocation.exit_code = RunWorker(*given, invocation); });
}

}  // namespace lockstep::cli

// `lockstep worker`: a data worker, until it is told to end.
#include "lockstep/data/worker/worker.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/cli/worker_options.h"
#include "lockstep/data/engine/function_pool.h"
#include "lockstep/platform/link/servers.h"
#include "lockstep/platform/runtime/end_limit.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/loopback.h"
#include "lockstep/platform/runtime/open_files.h"
#include "lockstep/platform/runtime/stop_signals.h"

namespace lockstep::cli {
namespace {

// Whether it serves by TLS, to consumers that its dispatcher sends: where other hosts reach it,
// unless everybody may read. FAILED_PRECONDITION: its secret would go to the dispatcher without
// TLS, and that is not allowed.
absl::StatusOr<bool> ServesByTls(runtime::Loop& loop, const DeclaredWorker& given,
                                 const link::Servers& dispatcher) {
  if (given.insecure_network) return false;
  // One that cannot be read is complained about by whoever listens there.
  const auto address = runtime::ParseAddress(given.listen);
  if (!address.ok()) return false;
  const absl::Status local = runtime::CheckLoopback(loop.io(), *address, "--insecure-network");
  if (local.ok()) return false;
  const std::vector<runtime::Address> servers = dispatcher.addresses();
  const auto in_clear = std::find_if(servers.begin(), servers.end(), [&](const auto& server) {
    return server.fingerprint.empty() &&
           !runtime::CheckLoopback(loop.io(), server, "--insecure-network").ok();
  });
  if (in_clear == servers.end()) return true;
  return absl::Status(
      local.code(),
      absl::StrCat("--listen ", std::string(local.message()),
                   "; or name the dispatcher by its join string (", "lockstep://",
                   runtime::ToString(*in_clear),
                   "#sha256=...), so that the worker serves only its consumers, by TLS"));
}

// Like all commands that talk to a server. Whatever names the dispatcher itself overrides it.
void DefaultToCoordinator(DeclaredWorker& given, const Invocation& invocation) {
  const char* const coordinator = invocation.variables("LOCKSTEP_COORDINATOR");
  if (coordinator != nullptr && *coordinator != '\0') given.dispatcher = coordinator;
}

int RunWorker(DeclaredWorker& given, Invocation& invocation) {
  const auto say = [&](const std::string& text) {
    invocation.err << "lockstep worker: " << text << std::endl;
  };
  const auto usage = [&](const absl::Status& why) {
    say(std::string(why.message()));
    return kExitUsage;
  };
  DefaultToCoordinator(given, invocation);
  if (absl::Status status = given.table.Resolve(invocation.variables); !status.ok()) {
    return usage(status);
  }
  const auto dispatcher = link::Servers::Read(given.dispatcher);
  if (!dispatcher.ok()) return usage(dispatcher.status());
  data::WorkerOptions options = given.options;
  options.dispatcher = *dispatcher;
  options.listen = given.listen;
  options.advertise = given.advertise;
  options.allow_paths = given.allow_paths;
  options.tags = given.tags;
  options.cache.threads = given.threads;
  auto allowed = runtime::ParseAllowedPeers(given.allow_uids);
  if (!allowed.ok()) return usage(allowed.status());
  options.allowed = *std::move(allowed);
  auto allowance = engine::FunctionAllowance::Parse(given.allow_functions);
  if (!allowance.ok()) {
    say(absl::StrCat("--allow-function ", std::string(allowance.status().message())));
    return kExitUsage;
  }
  const auto functions = std::make_shared<engine::FunctionPool>(
      engine::FunctionPoolOptions{.python = given.python, .allowance = *std::move(allowance)});
  if (!given.python.empty()) options.functions = functions;
  options.log = say;

  if (!runtime::RaiseOpenFilesLimit()) {
    say("cannot raise the limit on open files (RLIMIT_NOFILE)");
  }

  runtime::Loop loop;
  const auto by_tls = ServesByTls(loop, given, **dispatcher);
  if (!by_tls.ok()) return usage(by_tls.status());
  options.secure = *by_tls;
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
  const runtime::StopSignals signals(loop, [&](int signal) {
    say(absl::StrCat("signal ", signal, ": draining; a second signal ends the worker at once"));
    (*worker)->Drain([&] { loop.Stop(); });
  });
  loop.Run();
  const int code = failed.ok() ? kExitOk : kExitFailed;
  if (!failed.ok()) say(std::string(failed.message()));
  const runtime::EndLimit limit(given.end_timeout, code, [&] {
    say(absl::StrCat("running segments did not stop within ",
                     absl::FormatDuration(given.end_timeout),
                     " (end_timeout): exiting without them; other workers produce them again"));
  });
  functions->Stop();
  worker->reset();
  return code;
}

}  // namespace

void AddWorker(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand(
      "worker", "Run a data worker, which produces elements of datasets for the data service");
  auto given = std::make_shared<DeclaredWorker>();
  given->table.AddTo(*command);
  command->callback([given, &invocation] { invocation.exit_code = RunWorker(*given, invocation); });
}

}  // namespace lockstep::cli

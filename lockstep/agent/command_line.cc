#include "lockstep/agent/command_line.h"

#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep::agent {
namespace {

absl::Status Named(const char* option, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(option, ": ", std::string(status.message())));
}

// Like all commands that talk to a server; what names them to the agent alone wins.
void DefaultToCommon(DeclaredAgent& given, const config::OptionTable::Variables& variables) {
  const auto take = [&](const char* name, std::string& into) {
    if (const char* is = variables(name); is != nullptr && *is != '\0') into = is;
  };
  take("LOCKSTEP_COORDINATOR", given.coordinator);
  take("LOCKSTEP_JOB", given.job);
}

absl::Status Read(DeclaredAgent& given, ParsedCommand& command) {
  AgentOptions& options = command.options;
  options = given.options;
  auto coordinator = link::Servers::Read(given.coordinator);
  if (!coordinator.ok()) return Named("--coordinator", coordinator.status());
  options.coordinator = *std::move(coordinator);
  options.job = given.job.empty() ? options.coordinator->job() : given.job;
  if (options.job.empty()) {
    return absl::InvalidArgumentError(
        "no job given: set --job or LOCKSTEP_JOB, or use a join string with a job");
  }
  auto listen = runtime::ParseAddress(given.listen);
  if (!listen.ok()) return Named("--listen", listen.status());
  options.listen = *std::move(listen);
  auto torch_listen = runtime::ParseAddress(given.torch_listen);
  if (!torch_listen.ok()) return Named("--torch-listen", torch_listen.status());
  options.torch_listen = *std::move(torch_listen);
  options.peer_listen.reset();
  if (given.peer_listen != "off") {
    auto peer_listen = runtime::ParseAddress(given.peer_listen);
    if (!peer_listen.ok()) return Named("--peer-listen", peer_listen.status());
    options.peer_listen = *std::move(peer_listen);
  }
  auto allowed = runtime::ParseAllowedPeers(given.allow_uids);
  if (!allowed.ok()) return Named("--allow-uid", allowed.status());
  options.allowed = *std::move(allowed);
  if (!absl::SimpleAtoi(given.node, &options.node)) {
    return absl::InvalidArgumentError("--node: not a whole number");
  }
  options.on_partition =
      given.on_partition == "wait" ? hosts::OnPartition::kWait : hosts::OnPartition::kStop;
  command.ready_file = given.ready_file;
  return absl::OkStatus();
}

}  // namespace

DeclaredAgent::DeclaredAgent() : table("agent", "LOCKSTEP_AGENT_") {
  table
      .Text("coordinator", &coordinator, "ADDRESS",
            "The server: HOST:PORT, or its join string (lockstep://HOST:PORT/JOB#sha256=...). "
            "Several, with commas between them or in a file (file:///PATH): the one that leads. "
            "Without it, the agent uses LOCKSTEP_COORDINATOR.")
      .Common();
  table
      .Text("job", &job, "JOB",
            "The job of this host's processes. Without it, the agent uses LOCKSTEP_JOB or the job "
            "in the join string.")
      .Common();
  table
      .Text("listen", &listen, "HOST:PORT",
            "Loopback address for stock clients: their JAX_COORDINATOR_ADDRESS. Port 0 picks a "
            "free port.")
      .Common();
  table
      .Text("torch-listen", &torch_listen, "HOST:PORT",
            "Loopback address for PyTorch's TCPStore clients: their MASTER_ADDR and MASTER_PORT. "
            "Port 0 picks a free port.")
      .Common();
  table
      .Duration("patience", &options.patience,
                "Keep calls waiting for this long while the server is unreachable. Then fail all "
                "calls and exit.")
      .Common();
  table
      .Choice("on-partition", &on_partition, {"stop", "wait"},
              "When the host is cut off from the server and most other hosts: stop its processes "
              "within the server's --host-timeout, so that they can be started elsewhere; or keep "
              "them running, and the server waits for the host.")
      .Common();
  table.Text("node", &node, "NUMBER",
             "The number under which the launcher of this agent is known to the server (0: none).");
  table.Duration("start-timeout", &options.start_timeout,
                 "On start, wait this long for the server.");
  table.Text("peer-listen", &peer_listen, "HOST:PORT",
             "Address at which other agents of the job fetch long values that all hosts wait for. "
             "Port 0 picks a free port. off: the server sends this host's values itself.");
  table.List("allow-uid", &allow_uids, "USER",
             "Allow this local user (name or UID) to call the agent. Root and the agent's own user "
             "are always allowed. any: all users.");
  table.Text("ready-file", &ready_file, "FILE",
             "When the agent is ready, write its address to this file, as JSON.");
}

std::variant<ParsedCommand, EndNow> ParseCommandLine(
    int argc, const char* const* argv, const config::OptionTable::Variables& variables) {
  DeclaredAgent declared;
  DefaultToCommon(declared, variables);
  CLI::App app(
      "The Lockstep agent: keeps the calls of this host's stock clients alive while the server is "
      "unreachable.",
      "lockstep-agent");
  app.set_version_flag("--version", "lockstep-agent " LOCKSTEP_VERSION);
  declared.table.AddTo(app);
  if (auto end = config::Parse(app, argc, argv)) return *std::move(end);
  ParsedCommand command;
  absl::Status status = declared.table.Resolve(variables);
  if (status.ok()) status = Read(declared, command);
  if (status.ok()) return command;
  return config::WrongOptions(app, status);
}

}  // namespace lockstep::agent

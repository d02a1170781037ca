#include "lockstep/cli/run_options.h"

#include <array>
#include <csignal>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "lockstep/launch/launcher.h"
#include "lockstep/platform/config/values.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/server_list.h"

namespace lockstep::cli {
namespace {

using Texts = std::vector<std::string>;

// Restarts that may be asked for: `max_restarts_max`.
constexpr int64_t kMaxRestartsMax = 1'000'000;

bool IsRole(const std::string& text) {
  return !text.empty() && text.size() <= 64 &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyz"
             "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == std::string::npos;
}

// Signals that a launcher can pass on. What is not named ends it, as it ends any program.
constexpr std::array kCanBePassedOn = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGXCPU};

absl::StatusOr<std::vector<int>> ParseSignals(const std::string& text) {
  std::vector<int> signals;
  for (const std::string& name : Texts(absl::StrSplit(text, ','))) {
    int found = 0;
    for (const int signal : kCanBePassedOn) {
      const std::string full = launch::SignalName(signal);
      if (name == full || "SIG" + name == full) found = signal;
    }
    if (found == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", name,
                       "': must be a comma-separated list of SIGTERM, SIGINT, SIGHUP, SIGQUIT, "
                       "SIGUSR1, SIGUSR2 and SIGXCPU"));
    }
    signals.push_back(found);
  }
  return signals;
}

// Stores what a text was parsed to, or returns why it cannot be.
template <typename Parsed, typename T>
absl::Status Store(absl::StatusOr<Parsed> parsed, T& value) {
  if (!parsed.ok()) return parsed.status();
  value = *std::move(parsed);
  return absl::OkStatus();
}

std::string VariableOfTorchrun(const std::string& name) {
  return absl::StrCat("PET_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
}

}  // namespace

config::Option& ParsedTexts::Declare(config::OptionTable& table, std::string name, std::string type,
                                     std::string help, Parse parse) {
  std::string* const kept = &texts_.emplace_back();
  config::Option& option = table.Text(std::move(name), kept, std::move(type), std::move(help));
  option.set = [kept, parse = std::move(parse)](const Texts& texts) -> absl::Status {
    if (absl::Status status = parse(texts.front()); !status.ok()) return status;
    *kept = texts.front();
    return absl::OkStatus();
  };
  return option;
}

DeclaredRun::DeclaredRun() : table("run", "LOCKSTEP_RUN_") {
  DeclareNodes();
  DeclareRestarts();
  DeclareOutput();
  DeclareEnvironment();
  DeclareServer();
  DeclareModule();
  ignored_.Declare(table);
  table.TakeUnderscores();
}

void DeclaredRun::AsTorchrun(config::Option& option, const std::string& name) {
  if (name != option.name) option.other_flags.push_back("--" + name);
  option.other_variables.push_back(VariableOfTorchrun(name));
}

void DeclaredRun::DeclareNodes() {
  table.Group("Processes and nodes");
  table
      .Count("processes", &options.nodes.processes,
             "Start this many processes, on one node. Default: the size of the job, if the server "
             "has it.",
             1, launch::kRunProcessesMax)
      .Common()
      .flags = "-n,--processes";
  AsTorchrun(table
                 .Text("nproc-per-node", &options.nodes.per_node, "N|auto|cpu|gpu",
                       "Start this many processes on this node: a number, one per CPU (cpu) or "
                       "one per GPU (gpu). auto: one per GPU if there are any, else one per CPU.")
                 .Common(),
             "nproc-per-node");
  config::Option& nodes =
      table
          .Text("nnodes", &options.nodes.nodes, "N|MIN:MAX",
                "Number of nodes. Each runs its own lockstep run with the same --coordinator. "
                "Default: detected from the scheduler, else 1.")
          .Common();
  nodes.set = [this](const Texts& texts) {
    int32_t least = 0;
    int32_t most = 0;
    options.nodes.nodes = texts.front();
    return launch::ParseNodes(texts.front(), least, most);
  };
  AsTorchrun(nodes, "nnodes");
  config::Option& node = parsed_.Declare(
      table, "node-rank", "NUMBER",
      "Rank of this node. Default: detected from the scheduler, else assigned in order of arrival.",
      [this](const std::string& text) -> absl::Status {
        const auto rank = config::ParseCount(text);
        if (!rank.ok()) return rank.status();
        if (*rank < 0) return absl::InvalidArgumentError("must be 0 or more");
        if (*rank > launch::kRunProcessesMax) return absl::InvalidArgumentError("too large");
        options.nodes.node = static_cast<int32_t>(*rank);
        return absl::OkStatus();
      });
  node.Common();
  AsTorchrun(node, "node-rank");
  table.Duration("join-timeout", &options.join_timeout,
                 "Maximum time that nodes wait for each other before an attempt. Then the run "
                 "fails.");
  table.Duration("last-call", &options.last_call,
                 "With --nnodes MIN:MAX, start the first attempt with fewer than MAX nodes when "
                 "no further node has come for this long.",
                 /*may_be_zero=*/true);
  table.Text("hosts-file", &options.hosts_file, "PATH",
             "Read the job's hosts from this file, one per line, such as `gpu-1 slots=8`. The line "
             "that names this host gives the node's rank.");
}

void DeclaredRun::DeclareRestarts() {
  table.Group("Failures and restarts");
  AsTorchrun(table
                 .Count("max-restarts", &options.max_restarts,
                        "Restart the processes at most this many times after a failure.", 0,
                        kMaxRestartsMax)
                 .Common(),
             "max-restarts");
  table
      .Choice("restart-scope", &scope_, {"world", "node", "rank"},
              "After a failure, restart all processes of the job, those of the node, or only the "
              "one that failed (for recoverable jobs: see --recoverable of lockstep serve).")
      .Common();
  table.Duration("restart-backoff", &options.restart_backoff,
                 "Wait this long before a restart, from the second failure in a row that comes "
                 "within 10s of a start. The wait doubles each time.",
                 /*may_be_zero=*/true);
  table.Duration("restart-backoff-max", &options.restart_backoff_max,
                 "Maximum wait before a restart.", /*may_be_zero=*/true);
  table.Duration("grace", &options.grace,
                 "After the first failure, let the other processes end by themselves for this "
                 "long, then send them SIGTERM. Applies when no restart follows.",
                 /*may_be_zero=*/true);
  table.Duration("stop-grace", &options.stop_grace,
                 "Time between SIGTERM and SIGKILL for processes that are stopped for a restart.",
                 /*may_be_zero=*/true);
  parsed_.Declare(table, "term-grace", "DURATION",
                  "End the processes this long after lockstep run receives SIGTERM. Default: "
                  "never; the sender of the SIGTERM is expected to do it.",
                  [this](const std::string& text) {
                    return Store(config::ParseDuration(text), options.term_grace);
                  });
  config::Option& signals = parsed_.Declare(
      table, "signals-to-handle", "SIGNAL,...",
      "Pass these signals on to the processes. All others end lockstep run and its processes. "
      "Default: SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGXCPU.",
      [this](const std::string& text) { return Store(ParseSignals(text), options.signals); });
  AsTorchrun(signals, "signals-to-handle");
  table.Group("Preemption (docs/preemption.md)");
  table
      .List("notice", &options.notices, "SOURCE",
            "Take preemption notices for this host from this source "
            "(docs/preemption-sources.md). none: from no source.")
      .Common();
  table.Count("preempt-exit-code", &options.preempt_exit_code,
              "Exit code when the job was preempted and has saved.", 0, 255);
  table
      .Choice("on-preempt", &on_preempt_, {"exit", "restart", "wait"},
              "When all processes have ended because of a preemption: exit, restart them, or wait "
              "and restart them if the host survives.")
      .Common();
}

void DeclaredRun::DeclareOutput() {
  table.Group("Output");
  AsTorchrun(table
                 .Text("log-dir", &options.log_folder, "DIR",
                       "Also write the processes' output below this directory, to "
                       "attempt_1/rank_0/stdout.log and stderr.log.")
                 .Common(),
             "log-dir");
  config::Option& redirects = parsed_.Declare(
      table, "redirects", "STREAMS",
      "Write these streams to files only: 0 none, 1 standard output, 2 standard error, 3 both; or "
      "per local rank, such as 0:3,1:1.",
      [this](const std::string& text) {
        return Store(launch::StreamsOfRanks::Parse(text), options.routing.redirects);
      });
  redirects.flags = "-r,--redirects";
  AsTorchrun(redirects, "redirects");
  config::Option& tee =
      parsed_.Declare(table, "tee", "STREAMS",
                      "Write these streams to files and also show them. Values as for --redirects.",
                      [this](const std::string& text) {
                        return Store(launch::StreamsOfRanks::Parse(text), options.routing.tee);
                      });
  tee.flags = "-t,--tee";
  AsTorchrun(tee, "tee");
  config::Option& shown = parsed_.Declare(
      table, "local-ranks-filter", "RANK,...", "Show the output of these local ranks only.",
      [this](const std::string& text) {
        return Store(launch::ParseRanks(text), options.routing.shown);
      });
  AsTorchrun(shown, "local-ranks-filter");
  table
      .Text("result", &options.result_file, "FILE",
            "Write the outcome of the run to this JSON file. With --log-dir it is also written to "
            "result.json there.")
      .Common();
  table.Text("bundle-on-failure", &options.bundle_folder, "DIR",
             "If the run fails, write what `lockstep bundle` collects to this directory.");
  table.Switch("no-prefix", &no_prefix_, "Do not prefix lines with the name of their process.");
}

void DeclaredRun::DeclareEnvironment() {
  table.Group("Environment");
  config::Option& extra =
      table.List("env", &extra_, "NAME=VALUE", "Set this environment variable in the processes.")
          .Common();
  extra.set = [this](const Texts& texts) -> absl::Status {
    for (const std::string& text : texts) {
      const size_t equals = text.find('=');
      if (equals == 0 || equals == std::string::npos) {
        return absl::InvalidArgumentError(absl::StrCat("'", text, "': must be NAME=VALUE"));
      }
      options.extra[text.substr(0, equals)] = text.substr(equals + 1);
    }
    extra_ = texts;
    return absl::OkStatus();
  };
  table
      .Switch("encrypt-data", &options.encrypt_data,
              "Encrypt tensors that go over the network from one process to another. Sets "
              "LOCKSTEP_ENCRYPT_DATA in the processes.")
      .variable = "LOCKSTEP_ENCRYPT_DATA";
  for (auto& [name, value, help] :
       {std::tuple{"print-env", &options.print_environment,
                   "Print what was detected and the environment of each process. Start nothing."},
        std::tuple{"dry-run", &options.dry_run, "Print what would be done. Start nothing."}}) {
    table.Switch(name, value, help).Common().file = false;
  }
}

void DeclaredRun::DeclareServer() {
  table.Group("Server and job");
  table
      .Text("coordinator", &options.coordinator, "ADDRESS",
            "Use the server at HOST:PORT, or, over TLS, the one that its join string names "
            "(lockstep://HOST:PORT/JOB#sha256=...); of several, with commas between them or in a "
            "file (file:///PATH), the one that leads. Default: start a server for this run.")
      .Common()
      .variable = "LOCKSTEP_COORDINATOR";
  table
      .Text("job", &options.job, "NAME",
            "Name of the job. May be omitted if the server has only one.")
      .Common()
      .variable = "LOCKSTEP_JOB";
  table
      .Switch("agent", &options.agent,
              "Start an agent on this host. JAX, TensorFlow and PyTorch processes connect to it "
              "instead of the server, so they survive a server restart (docs/agents.md). Requires "
              "--coordinator.")
      .Common();
  table.Choice("on-partition", &options.on_partition, {"stop", "wait"},
               "With --agent, when this host is cut off from the server and most other hosts: stop "
               "the processes at once, so that they can be started elsewhere; or keep them running "
               "until the network is back, and the server waits for this host.");
  config::Option& role =
      table.Text("role", &options.role, "NAME", "Name the processes ROLE/0, ROLE/1, and so on.");
  role.set = [this](const Texts& texts) -> absl::Status {
    if (!IsRole(texts.front())) {
      return absl::InvalidArgumentError(
          "a role name has 1 to 64 characters: letters, digits, - and _");
    }
    options.role = texts.front();
    return absl::OkStatus();
  };
  AsTorchrun(role, "role");
  AsTorchrun(table.Text("rdzv-id", &options.run_name, "NAME",
                        "Value of TORCHELASTIC_RUN_ID for torch programs. Default: detected from "
                        "the scheduler, else the job's name."),
             "rdzv-id");
  table.Switch("no-stacks", &options.no_stacks,
               "Do not add the helper that answers `lockstep stacks` to Python processes.");
  table.Switch("server-log", &options.show_server_log,
               "Show the log of the server started for this run.");
  server_times_.Declare(table);
}

void DeclaredRun::DeclareModule() {
  table.Group("For torchrun command lines");
  config::Option& module =
      table.Switch("module", &options.is_module, "Run the command as a Python module (python -m).");
  module.flags = "-m,--module";
  AsTorchrun(module, "module");
  AsTorchrun(table.Switch("no-python", &options.is_program,
                          "Run the command as a program, even if its name ends in .py."),
             "no-python");
}

void ServerTimes::Declare(config::OptionTable& table) {
  times_ = {{"register-timeout", ""}, {"heartbeat-timeout", ""}, {"shutdown-timeout", ""}};
  for (auto& [name, value] : times_) {
    config::Option& option =
        table.Text(name, &value, "DURATION",
                   absl::StrCat("Pass --", name, " to the server started for this run."));
    option.set = [text = &value](const Texts& texts) -> absl::Status {
      if (auto duration = config::ParseDuration(texts.front()); !duration.ok()) {
        return duration.status();
      }
      *text = texts.front();
      return absl::OkStatus();
    };
  }
}

std::vector<std::string> ServerTimes::Arguments() const {
  std::vector<std::string> arguments;
  for (const auto& [name, value] : times_) {
    if (value.empty()) continue;
    arguments.push_back("--" + name);
    arguments.push_back(value);
  }
  return arguments;
}

void IgnoredOfTorchrun::Declare(config::OptionTable& table) {
  const std::string where = "processes meet at the Lockstep server (--coordinator)";
  options_ = {
      {"rdzv-backend", {where, ""}},
      {"rdzv-endpoint", {where, ""}},
      {"rdzv-conf", {where, ""}},
      {"master-addr", {where, ""}},
      {"master-port", {where, ""}},
      {"local-addr", {where, ""}},
      {"monitor-interval", {"the end of a process is detected at once", ""}},
      {"start-method", {"each process is a new execution of the command", ""}},
      {"event-log-handler", {"`lockstep events` shows events", ""}},
      {"logs-specs", {"use --log-dir, --redirects and --tee", ""}},
      {"numa-binding", {"processes are not bound to NUMA nodes; use numactl in the command", ""}},
  };
  for (auto& [name, option] : options_) {
    config::Option& declared =
        table.Text(name, &option.value, "TEXT",
                   absl::StrCat("Accepted for torchrun and ignored: ", option.why, "."));
    declared.file = false;
    declared.variable = VariableOfTorchrun(name);
    declared.set = [](const Texts&) { return absl::OkStatus(); };
  }
  for (const char* name : {"standalone", "run-path"}) {
    const std::string why = std::string(name) == "standalone"
                                ? "a run without --coordinator is standalone"
                                : "scripts run as under python";
    config::Option& declared =
        table.Switch(name, &switch_, absl::StrCat("Accepted for torchrun and ignored: ", why, "."));
    declared.file = false;
    declared.variable = VariableOfTorchrun(name);
  }
}

std::vector<std::string> IgnoredOfTorchrun::Given(const config::OptionTable& table) const {
  std::vector<std::string> given;
  // What a cluster's operator sets for torchrun by variables is nobody's mistake.
  for (const config::Option& option : table.options()) {
    if (option.origin != config::Origin::kFlag) continue;
    for (const auto& [name, ignored] : options_) {
      if (option.name == name) {
        given.push_back(absl::StrCat("--", name, " is ignored: ", ignored.why));
      }
    }
  }
  return given;
}

void DeclaredRun::Settle() {
  // What is wrong with the address is told when it is called.
  if (const auto servers = runtime::ReadServerList(options.coordinator);
      servers.ok() && options.job.empty()) {
    options.job = servers->job;
  }
  options.server_arguments = server_times_.Arguments();
  options.on_preempt = on_preempt_ == "restart" ? launch::OnPreempt::kRestart
                       : on_preempt_ == "wait"  ? launch::OnPreempt::kWait
                                                : launch::OnPreempt::kExit;
  options.scope = scope_ == "rank"   ? launch::RestartScope::kRank
                  : scope_ == "node" ? launch::RestartScope::kNode
                                     : launch::RestartScope::kWorld;
  options.prefix = !no_prefix_;
  if (options.encrypt_data) options.extra.emplace("LOCKSTEP_ENCRYPT_DATA", "1");
  options.routing.files = !options.log_folder.empty();
  // torchrun has a folder of its own for it; many say it to it for the prefixes only.
  if (options.routing.tee && !options.routing.tee->none() && !options.routing.files) {
    options.without_effect.push_back(
        "--tee writes no files without --log-dir; output is only shown");
  }
  const std::vector<std::string> ignored = ignored_.Given(table);
  options.without_effect.insert(options.without_effect.end(), ignored.begin(), ignored.end());
}

}  // namespace lockstep::cli

#include "lockstep/cli/run_options.h"

#include <array>
#include <csignal>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "lockstep/config/values.h"
#include "lockstep/launch/launcher.h"

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
                       "': must be some of SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and "
                       "SIGXCPU, with commas between"));
    }
    signals.push_back(found);
  }
  return signals;
}

}  // namespace

DeclaredRun::DeclaredRun() : table("run", "LOCKSTEP_RUN_") {
  DeclareNodes();
  DeclareRestarts();
  DeclareOutput();
  DeclareServer();
  DeclareOfTorchrun();
  table.TakeUnderscores();
}

void DeclaredRun::AsTorchrun(config::Option& option, const std::string& name) {
  if (name != option.name) option.other_flags.push_back("--" + name);
  option.other_variables.push_back(
      absl::StrCat("PET_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}}))));
}

void DeclaredRun::DeclareNodes() {
  table
      .Count("processes", &options.nodes.processes,
             "How many processes, on one node; the size of the job when the server knows it "
             "already.",
             1, launch::kRunProcessesMax)
      .flags = "-n,--processes";
  AsTorchrun(table.Text("nproc-per-node", &options.nodes.per_node, "N|auto|cpu|gpu",
                        "How many processes on this node: a number, or one for each CPU or GPU; "
                        "auto: GPUs if there are any."),
             "nproc-per-node");
  config::Option& nodes =
      table.Text("nnodes", &options.nodes.nodes, "N|MIN:MAX",
                 "How many nodes, each with a lockstep run of its own and the same --coordinator; "
                 "left out: as was detected, or 1.");
  nodes.set = [this](const Texts& texts) {
    int32_t least = 0;
    int32_t most = 0;
    options.nodes.nodes = texts.front();
    return launch::ParseNodes(texts.front(), least, most);
  };
  AsTorchrun(nodes, "nnodes");
  config::Option& node =
      table.Text("node-rank", &node_rank_, "NUMBER",
                 "Which of the nodes this is; left out: as was detected, or any.");
  node.set = [this](const Texts& texts) -> absl::Status {
    const auto rank = config::ParseCount(texts.front());
    if (!rank.ok()) return rank.status();
    if (*rank < 0) return absl::InvalidArgumentError("must be 0 or more");
    if (*rank > launch::kRunProcessesMax) return absl::InvalidArgumentError("too large");
    options.nodes.node = static_cast<int32_t>(*rank);
    node_rank_ = texts.front();
    return absl::OkStatus();
  };
  AsTorchrun(node, "node-rank");
  table.Duration("join-timeout", &options.join_timeout,
                 "How long nodes wait for each other before an attempt; then the run fails.");
  table.Duration("last-call", &options.last_call,
                 "With MIN:MAX: from the last node that came until the first attempt begins with "
                 "fewer than MAX.",
                 /*may_be_zero=*/true);
  table.Text("hosts-file", &options.hosts_file, "PATH",
             "Hosts of the job, one a line, as `gpu-1 slots=8`: the line with this host's name "
             "says which node this is.");
}

void DeclaredRun::DeclareRestarts() {
  AsTorchrun(
      table.Count("max-restarts", &options.max_restarts,
                  "How often processes are started again after a failure.", 0, kMaxRestartsMax),
      "max-restarts");
  table.Choice("restart-scope", &scope_, {"world", "node", "rank"},
               "Who is started again: all processes of the job, those of the node, or the one "
               "that failed (which a job has to allow: see --recoverable of the server).");
  table.Duration("restart-backoff", &options.restart_backoff,
                 "How long to wait before a restart, from the second failure in a row within 10 s; "
                 "doubled after each.",
                 /*may_be_zero=*/true);
  table.Duration("restart-backoff-max", &options.restart_backoff_max,
                 "The longest wait before a restart.", /*may_be_zero=*/true);
  table.Duration("grace", &options.grace,
                 "From the first failure until the processes that are left get SIGTERM, when "
                 "nobody is started again.",
                 /*may_be_zero=*/true);
  table.Duration("stop-grace", &options.stop_grace,
                 "From SIGTERM until SIGKILL for processes that are stopped to be started again.",
                 /*may_be_zero=*/true);
  config::Option& term_grace =
      table.Text("term-grace", &term_grace_text_, "DURATION",
                 "From a SIGTERM to lockstep run until its processes are ended; left out, whoever "
                 "sent it does that.");
  term_grace.set = [this](const Texts& texts) -> absl::Status {
    const auto duration = config::ParseDuration(texts.front());
    if (!duration.ok()) return duration.status();
    term_grace_text_ = texts.front();
    options.term_grace = *duration;
    return absl::OkStatus();
  };
  config::Option& signals =
      table.Text("signals-to-handle", &signals_, "SIGNAL,...",
                 "Which signals are passed on to the processes; the others end lockstep run, and "
                 "all with it.");
  signals.set = [this](const Texts& texts) -> absl::Status {
    auto parsed = ParseSignals(texts.front());
    if (!parsed.ok()) return parsed.status();
    signals_ = texts.front();
    options.signals = *std::move(parsed);
    return absl::OkStatus();
  };
  AsTorchrun(signals, "signals-to-handle");
  table.List("notice", &options.notices, "SOURCE",
             "Who may say that this host will be taken away: docs/preemption-sources.md; none for "
             "nobody.");
  table.Count("preempt-exit-code", &options.preempt_exit_code,
              "What lockstep run ends with when the job was preempted and saved.", 0, 255);
  table.Choice("on-preempt", &on_preempt_, {"exit", "restart", "wait"},
               "When all have ended because they were preempted: end as well; start them again; or "
               "do that when the host has lived on.");
}

void DeclaredRun::DeclareOutput() {
  AsTorchrun(table.Text("log-dir", &options.log_folder, "DIR",
                        "Also write what processes say to attempt_1/rank_0/stdout.log and "
                        "stderr.log below it."),
             "log-dir");
  config::Option& redirects = table.Text("redirects", &redirects_, "STREAMS",
                                         "What goes to files only: 0 nothing, 1 standard output, 2 "
                                         "standard error, 3 both; or by local "
                                         "rank, 0:3,1:1.");
  redirects.flags = "-r,--redirects";
  redirects.set = [this](const Texts& texts) -> absl::Status {
    auto streams = launch::StreamsOfRanks::Parse(texts.front());
    if (!streams.ok()) return streams.status();
    redirects_ = texts.front();
    options.routing.redirects = *streams;
    return absl::OkStatus();
  };
  AsTorchrun(redirects, "redirects");
  config::Option& tee =
      table.Text("tee", &tee_, "STREAMS", "What goes to files and is shown, likewise.");
  tee.flags = "-t,--tee";
  tee.set = [this](const Texts& texts) -> absl::Status {
    auto streams = launch::StreamsOfRanks::Parse(texts.front());
    if (!streams.ok()) return streams.status();
    tee_ = texts.front();
    options.routing.tee = *streams;
    return absl::OkStatus();
  };
  AsTorchrun(tee, "tee");
  config::Option& shown = table.Text("local-ranks-filter", &shown_, "RANK,...",
                                     "Show only what these local ranks say.");
  shown.set = [this](const Texts& texts) -> absl::Status {
    auto ranks = launch::ParseRanks(texts.front());
    if (!ranks.ok()) return ranks.status();
    shown_ = texts.front();
    options.routing.shown = *ranks;
    return absl::OkStatus();
  };
  AsTorchrun(shown, "local-ranks-filter");
  table.Text("result", &options.result_file, "FILE",
             "Write how the run ended to this file, as JSON; with --log-dir also to result.json "
             "there.");
  table.Text("bundle-on-failure", &options.bundle_folder, "DIR",
             "When the run fails, write what `lockstep bundle` collects into this folder.");
  table.Switch("no-prefix", &no_prefix_, "Do not say before each line whose it is.");
  config::Option& extra = table.List("env", &extra_, "NAME=VALUE",
                                     "A variable of the processes, besides what they get anyway.");
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
  for (auto& [name, value, help] :
       {std::tuple{"print-env", &options.print_environment,
                   "Print what was detected and what each process would get, and start nothing."},
        std::tuple{"dry-run", &options.dry_run, "Print what would be done, and do nothing."}}) {
    table.Switch(name, value, help).file = false;
  }
}

void DeclaredRun::DeclareServer() {
  table
      .Text("coordinator", &options.coordinator, "HOST:PORT",
            "A server that runs already; without one, a server is started for this run.")
      .variable = "LOCKSTEP_COORDINATOR";
  table
      .Text("job", &options.job, "NAME",
            "The job's name; may be left out when the server has only one.")
      .variable = "LOCKSTEP_JOB";
  config::Option& role = table.Text("role", &options.role, "NAME",
                                    "What the processes are called: ROLE/0, ROLE/1, ...");
  role.set = [this](const Texts& texts) -> absl::Status {
    if (!IsRole(texts.front())) {
      return absl::InvalidArgumentError("a role has 1 to 64 letters, digits, - and _");
    }
    options.role = texts.front();
    return absl::OkStatus();
  };
  AsTorchrun(role, "role");
  AsTorchrun(table.Text("rdzv-id", &options.run_name, "NAME",
                        "What torch programs find as TORCHELASTIC_RUN_ID; left out: what was "
                        "detected, or the job's name."),
             "rdzv-id");
  table.Switch("no-stacks", &options.no_stacks,
               "Do not have Python processes import what answers lockstep stacks.");
  table.Switch("server-log", &options.show_server_log,
               "Show the log of the server that is started for this run.");
  server_times_ = {{"register-timeout", ""}, {"heartbeat-timeout", ""}, {"shutdown-timeout", ""}};
  for (auto& [name, value] : server_times_) {
    config::Option& option = table.Text(name, &value, "DURATION",
                                        "Of the server that is started for this run; see there.");
    option.set = [text = &value](const Texts& texts) -> absl::Status {
      if (auto duration = config::ParseDuration(texts.front()); !duration.ok()) {
        return duration.status();
      }
      *text = texts.front();
      return absl::OkStatus();
    };
  }
}

void DeclaredRun::DeclareOfTorchrun() {
  config::Option& module =
      table.Switch("module", &options.is_module, "The command is a Python module: python -m.");
  module.flags = "-m,--module";
  AsTorchrun(module, "module");
  AsTorchrun(table.Switch("no-python", &options.is_program,
                          "The command is a program, also if it is called something.py."),
             "no-python");
  const std::string where = "the processes meet at Lockstep's server: --coordinator says where";
  without_effect_ = {
      {"rdzv-backend", {where, ""}},
      {"rdzv-endpoint", {where, ""}},
      {"rdzv-conf", {where, ""}},
      {"master-addr", {where, ""}},
      {"master-port", {where, ""}},
      {"local-addr", {where, ""}},
      {"monitor-interval", {"ends of processes are seen as they happen", ""}},
      {"start-method", {"processes are always executed anew", ""}},
      {"event-log-handler", {"`lockstep events` tells what happens", ""}},
      {"logs-specs", {"--log-dir, --redirects and --tee say where output goes", ""}},
      {"numa-binding", {"processes are not bound; numactl as the command does it", ""}},
  };
  for (auto& [name, option] : without_effect_) {
    config::Option& declared =
        table.Text(name, &option.value, "TEXT",
                   absl::StrCat("torchrun's, taken and without effect: ", option.why, "."));
    declared.file = false;
    declared.variable =
        absl::StrCat("PET_", absl::AsciiStrToUpper(absl::StrReplaceAll(name, {{"-", "_"}})));
    declared.set = [](const Texts&) { return absl::OkStatus(); };
  }
  for (const char* name : {"standalone", "run-path"}) {
    const std::string why = std::string(name) == "standalone"
                                ? "a run without --coordinator is alone anyway"
                                : "a script is run as python runs it";
    config::Option& declared = table.Switch(
        name, &ignored_switch_, absl::StrCat("torchrun's, taken and without effect: ", why, "."));
    declared.file = false;
    declared.variable = absl::StrCat(
        "PET_", absl::AsciiStrToUpper(absl::StrReplaceAll(std::string(name), {{"-", "_"}})));
  }
}

void DeclaredRun::Settle() {
  for (const auto& [name, value] : server_times_) {
    if (!value.empty()) {
      options.server_arguments.push_back("--" + name);
      options.server_arguments.push_back(value);
    }
  }
  options.on_preempt = on_preempt_ == "restart" ? launch::OnPreempt::kRestart
                       : on_preempt_ == "wait"  ? launch::OnPreempt::kWait
                                                : launch::OnPreempt::kExit;
  options.scope = scope_ == "rank"   ? launch::RestartScope::kRank
                  : scope_ == "node" ? launch::RestartScope::kNode
                                     : launch::RestartScope::kWorld;
  options.prefix = !no_prefix_;
  options.routing.files = !options.log_folder.empty();
  // torchrun has a folder of its own for it; many say it to it for the prefixes only.
  if (options.routing.tee && !options.routing.tee->none() && !options.routing.files) {
    options.without_effect.push_back(
        "--tee writes no files without --log-dir, which says where they are; output is only shown");
  }
  // What a cluster's operator sets for torchrun by variables is nobody's mistake.
  for (const config::Option& option : table.options()) {
    if (option.origin != config::Origin::kFlag) continue;
    for (const auto& [name, without] : without_effect_) {
      if (option.name == name) {
        options.without_effect.push_back(
            absl::StrCat("--", name, " is without effect: ", without.why));
      }
    }
  }
}

}  // namespace lockstep::cli

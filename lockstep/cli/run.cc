// `lockstep run`: the command line of it. What it does is in run_session.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/config/values.h"
#include "lockstep/launch/exit_code.h"

namespace lockstep::cli {
namespace {

bool IsRole(const std::string& text) {
  return !text.empty() && text.size() <= 64 &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyz"
             "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == std::string::npos;
}

int Run(const CLI::App& run, const std::vector<std::string>& from_dashes, DeclaredRun& declared,
        const config::OptionTable::Variables& variables) {
  if (absl::Status status = declared.table.Resolve(variables); !status.ok()) {
    std::fprintf(stderr, "lockstep run: %s\n", std::string(status.message()).c_str());
    return launch::kExitUsage;
  }
  RunOptions& options = declared.options;
  for (const auto& [name, value] : declared.server_times) {
    if (!value.empty()) {
      options.server_arguments.push_back("--" + name);
      options.server_arguments.push_back(value);
    }
  }
  options.on_preempt = declared.on_preempt == "restart" ? launch::OnPreempt::kRestart
                       : declared.on_preempt == "wait"  ? launch::OnPreempt::kWait
                                                        : launch::OnPreempt::kExit;
  // The dashes may be left out: then the command begins at the first word that is no flag of ours,
  // and dashes that come later are the command's own.
  options.command = run.remaining();
  options.command.insert(options.command.end(), from_dashes.begin(), from_dashes.end());
  if (run.remaining().empty() && !from_dashes.empty()) {
    options.command.erase(options.command.begin());
  }
  if (options.command.empty()) {
    std::fprintf(stderr,
                 "lockstep run: no command given; it comes last: lockstep run -n 4 -- python3 "
                 "train.py\n");
    return launch::kExitUsage;
  }
  if (!run.remaining().empty() && options.command.front().rfind('-', 0) == 0) {
    std::fprintf(stderr, "lockstep run: unknown flag %s; lockstep run --help lists them\n",
                 options.command.front().c_str());
    return launch::kExitUsage;
  }
  return RunJob(options);
}

}  // namespace

DeclaredRun::DeclaredRun() : table("run", "LOCKSTEP_RUN_") {
  table
      .Count("processes", &options.processes,
             "How many processes; the size of the job when the server knows it already.", 1,
             launch::kRunProcessesMax)
      .flags = "-n,--processes";
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
  role.set = [this](const std::vector<std::string>& texts) -> absl::Status {
    if (!IsRole(texts.front())) {
      return absl::InvalidArgumentError("a role has 1 to 64 letters, digits, - and _");
    }
    options.role = texts.front();
    return absl::OkStatus();
  };
  table.Duration("grace", &options.grace,
                 "From the first failure until the processes that are left get SIGTERM.",
                 /*may_be_zero=*/true);
  table.List("notice", &options.notices, "SOURCE",
             "Who may say that this host will be taken away: docs/preemption-sources.md; none for "
             "nobody.");
  table.Choice("on-preempt", &on_preempt, {"exit", "restart", "wait"},
               "When all have ended because they were preempted: end as well; start them again; or "
               "do that when the host has lived on.");
  config::Option& term_grace =
      table.Text("term-grace", &term_grace_text, "DURATION",
                 "From a SIGTERM to lockstep run until its processes are ended; left out, whoever "
                 "sent it does that.");
  term_grace.set = [this](const std::vector<std::string>& texts) -> absl::Status {
    const auto duration = config::ParseDuration(texts.front());
    if (!duration.ok()) return duration.status();
    term_grace_text = texts.front();
    options.term_grace = *duration;
    return absl::OkStatus();
  };
  table.Switch("server-log", &options.show_server_log,
               "Show the log of the server that is started for this run.");
  server_times = {{"register-timeout", ""}, {"heartbeat-timeout", ""}, {"shutdown-timeout", ""}};
  for (auto& [name, value] : server_times) {
    config::Option& option = table.Text(name, &value, "DURATION",
                                        "Of the server that is started for this run; see there.");
    option.set = [text = &value](const std::vector<std::string>& texts) -> absl::Status {
      if (auto duration = config::ParseDuration(texts.front()); !duration.ok()) {
        return duration.status();
      }
      *text = texts.front();
      return absl::OkStatus();
    };
  }
}

void AddRun(CLI::App& app, const std::vector<std::string>& from_dashes, Invocation& invocation) {
  CLI::App* const run = app.add_subcommand(
      "run", "Run a job on this host: lockstep run -n 4 [FLAGS] -- COMMAND [ARGUMENTS...]");
  auto declared = std::make_shared<DeclaredRun>();
  run->prefix_command();
  declared->table.AddTo(*run);
  run->callback([run, declared, from_dashes, &invocation] {
    invocation.exit_code = Run(*run, from_dashes, *declared, invocation.variables);
  });
}

}  // namespace lockstep::cli

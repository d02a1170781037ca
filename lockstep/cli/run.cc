// `lockstep run`: the command line of it. What it does is in run_session.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/cli/run_session.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/launch/exit_code.h"

namespace lockstep::cli {
namespace {

// A duration as Go and abseil write it: 90s, 5m, 1h30m.
CLI::Validator Duration() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        absl::Duration duration;
        if (absl::ParseDuration(text, &duration) && duration >= absl::ZeroDuration()) return "";
        return "\"" + text + "\" is not a duration such as 90s or 5m";
      },
      "DURATION");
}

CLI::Validator Role() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const bool good = !text.empty() && text.size() <= 64 &&
                          text.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == std::string::npos;
        return good ? "" : "a role has 1 to 64 letters, digits, - and _";
      },
      "NAME");
}

struct Flags {
  RunOptions options;
  std::string grace = "10s";
};

int Run(const CLI::App& run, const std::vector<std::string>& from_dashes, Flags& flags) {
  RunOptions& options = flags.options;
  absl::ParseDuration(flags.grace, &options.grace);
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

void AddRun(CLI::App& app, const std::vector<std::string>& from_dashes, int& exit_code) {
  CLI::App* const run = app.add_subcommand(
      "run", "Run a job on this host: lockstep run -n 4 [FLAGS] -- COMMAND [ARGUMENTS...]");
  auto flags = std::make_shared<Flags>();
  RunOptions& options = flags->options;
  run->prefix_command();
  run->add_option("-n,--processes", options.processes,
                  "How many processes; the size of the job when the server knows it already")
      ->check(CLI::Range(1, launch::kRunProcessesMax));
  run->add_option("--coordinator", options.coordinator,
                  "A server that runs already; without one, a server is started for this run")
      ->envname("LOCKSTEP_COORDINATOR")
      ->type_name("HOST:PORT");
  run->add_option("--job", options.job,
                  "The job's name; may be left out when the server has only one")
      ->envname("LOCKSTEP_JOB")
      ->type_name("NAME");
  run->add_option("--role", options.role, "What the processes are called: ROLE/0, ROLE/1, ...")
      ->check(Role())
      ->capture_default_str();
  run->add_option("--grace", flags->grace,
                  "From the first failure until the processes that are left get SIGTERM")
      ->check(Duration())
      ->capture_default_str();
  run->add_flag("--server-log", options.show_server_log,
                "Show the log of the server that is started for this run");
  for (const char* name : {"--register-timeout", "--heartbeat-timeout", "--shutdown-timeout"}) {
    run->add_option_function<std::string>(
           name,
           [flags, name](const std::string& value) {
             flags->options.server_arguments.push_back(name);
             flags->options.server_arguments.push_back(value);
           },
           "Of the server that is started for this run (lockstep serve --help)")
        ->check(Duration());
  }
  run->callback(
      [run, flags, from_dashes, &exit_code] { exit_code = Run(*run, from_dashes, *flags); });
}

}  // namespace lockstep::cli

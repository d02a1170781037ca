// `lockstep run`: the command line of it. What it does is in run_session.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/cli/run_options.h"
#include "lockstep/cli/run_session.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/launch/exit_code.h"

namespace lockstep::cli {
namespace {

int Run(const CLI::App& run, const std::vector<std::string>& from_dashes, DeclaredRun& declared,
        const config::OptionTable::Variables& variables) {
  if (absl::Status status = declared.table.Resolve(variables); !status.ok()) {
    std::fprintf(stderr, "lockstep run: %s\n", std::string(status.message()).c_str());
    return launch::kExitUsage;
  }
  declared.Settle();
  RunOptions& options = declared.options;
  // The dashes may be left out: then the command begins at the first word that is no flag of ours,
  // and dashes that come later are the command's own.
  options.command = run.remaining();
  options.command.insert(options.command.end(), from_dashes.begin(), from_dashes.end());
  if (run.remaining().empty() && !from_dashes.empty()) {
    options.command.erase(options.command.begin());
  }
  if (options.command.empty()) {
    std::fprintf(stderr,
                 "lockstep run: no command given; write it last: lockstep run -n 4 -- python3 "
                 "train.py\n");
    return launch::kExitUsage;
  }
  if (!run.remaining().empty() && options.command.front().rfind('-', 0) == 0) {
    std::fprintf(stderr,
                 "lockstep run: unknown flag %s; `lockstep run --help-all` lists all flags\n",
                 options.command.front().c_str());
    return launch::kExitUsage;
  }
  return RunJob(options);
}

}  // namespace

void AddRun(CLI::App& app, const std::vector<std::string>& from_dashes, Invocation& invocation) {
  CLI::App* const run =
      app.add_subcommand("run", "Run a job: lockstep run -n 4 [FLAGS] -- COMMAND [ARGUMENTS...]");
  auto declared = std::make_shared<DeclaredRun>();
  run->prefix_command();
  declared->table.AddTo(*run);
  run->callback([run, declared, from_dashes, &invocation] {
    invocation.exit_code = Run(*run, from_dashes, *declared, invocation.variables);
  });
}

}  // namespace lockstep::cli

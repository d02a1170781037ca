// `lockstep`: one program, one file a subcommand.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "lockstep/cli/standard_output.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/platform/runtime/standard_files.h"
#include "lockstep/platform/tls/calls.h"
#include "lockstep/platform/tls/openssl.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  runtime::OpenStandardFiles();
  if (argc >= 2 && std::strcmp(argv[1], "serve") == 0) {
    return cli::ExecuteServer("serve", {argv + 2, argv + argc});
  }
  if (argc >= 2 && std::strcmp(argv[1], "agent") == 0) {
    return cli::ExecuteAgent({argv + 2, argv + argc});
  }

  tls::InstallSecureCalls([] { return &tls::LinkedOpenSsl(); });
  CLI::App app("Coordinates the processes of distributed training jobs.", "lockstep");
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION);
  app.require_subcommand(1);
  // What follows `--` is somebody else's command line, and nothing of it is ours to read.
  char** const ours_end = std::find_if(
      argv, argv + argc, [](const char* argument) { return std::strcmp(argument, "--") == 0; });
  const std::vector<std::string> from_dashes(ours_end, argv + argc);

  cli::Invocation invocation{.out = std::cout, .err = std::cerr};
  cli::AddServe(app, invocation);
  cli::AddAgent(app, invocation);
  cli::AddRun(app, from_dashes, invocation);
  cli::AddStatus(app, invocation);
  cli::AddWhy(app, invocation);
  cli::AddBundle(app, invocation);
  cli::AddStacks(app, invocation);
  cli::AddMembers(app, invocation);
  cli::AddHosts(app, invocation);
  cli::AddBarriers(app, invocation);
  cli::AddRendezvous(app, invocation);
  cli::AddData(app, invocation);
  cli::AddKv(app, invocation);
  cli::AddJobs(app, invocation);
  cli::AddEvents(app, invocation);
  cli::AddPreempt(app, invocation);
  cli::AddReportProcesses(app, invocation);
  cli::AddWorker(app, invocation);
  cli::AddConfig(app, invocation);
  cli::AddAuth(app, invocation);
  cli::AddToken(app, invocation);
  // After the subcommands: CLI11 gives each the footer that its parent has when it is added.
  app.footer(
      "`lockstep COMMAND --help` shows the options of a command. Exit codes and environment\n"
      "variables: docs/cli.md.");
  cli::StandardOutput output(std::cout);
  try {
    app.parse(static_cast<int>(ours_end - argv), argv);
  } catch (const CLI::ParseError& error) {
    invocation.exit_code = cli::ExitOfParsing(app, error, std::cout, std::cerr);
  }
  if (const absl::Status status = output.Finish(); !status.ok()) {
    std::cerr << cli::CommandPath(app) << ": " << std::string(status.message()) << "\n";
    if (invocation.exit_code == cli::kExitOk) return cli::kExitFailed;
  }
  return invocation.exit_code;
}

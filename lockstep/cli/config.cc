// `lockstep config show [server|run|client|worker] [-o json] [FLAGS...]`: what each option is, and
// where that came from.
#include <memory>
#include <string>
#include <vector>

#include "lockstep/cli/run_options.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/cli/worker_options.h"
#include "lockstep/platform/config/show.h"

namespace lockstep::cli {
namespace {

int Show(Invocation& invocation, config::OptionTable& table, const std::vector<std::string>& flags,
         bool json) {
  CLI::App app("", "lockstep config show " + table.section());
  table.AddTo(app);
  // CLI11 takes the words of a vector from its end.
  std::vector<std::string> words(flags.rbegin(), flags.rend());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return ExitOfParsing(app, error, invocation.out, invocation.err);
  }
  if (absl::Status status = table.Resolve(invocation.variables); !status.ok()) {
    invocation.err << "lockstep config show: " << std::string(status.message()) << "\n";
    return kExitUsage;
  }
  invocation.out << (json ? config::ShowJson(table) : config::ShowText(table));
  return kExitOk;
}

}  // namespace

void AddConfig(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand("config", "Show the options");
  command->require_subcommand(1);
  CLI::App* const show = command->add_subcommand(
      "show", "Show the value of each option and its origin: flag, variable, file or default");
  auto program = std::make_shared<std::string>("server");
  auto output = std::make_shared<std::string>("table");
  show->prefix_command();
  show->add_option("program", *program, "Program")
      ->type_name("server|run|client|worker")
      ->check(CLI::IsMember({"server", "run", "client", "worker"}))
      ->capture_default_str();
  show->add_option("-o,--output", *output, "Print a table, or JSON for programs")
      ->type_name("table|json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  show->callback([show, program, output, &invocation] {
    std::vector<std::string> flags = show->remaining();
    const bool json = *output == "json";
    if (*program == "run") {
      DeclaredRun declared;
      invocation.exit_code = Show(invocation, declared.table, flags, json);
    } else if (*program == "client") {
      ClientOptions options;
      invocation.exit_code = Show(invocation, options.table, flags, json);
    } else if (*program == "worker") {
      DeclaredWorker declared;
      invocation.exit_code = Show(invocation, declared.table, flags, json);
    } else {
      // The server's options are declared in the server: only it carries what they are about.
      flags.push_back(json ? "--show-config=json" : "--show-config=table");
      invocation.exit_code = ExecuteServer("config show", flags);
    }
  });
}

}  // namespace lockstep::cli

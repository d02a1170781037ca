// `lockstep serve` and `lockstep agent`: programs of their own, since they are linked to gRPC and
// this one must not be.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "lockstep/cli/subcommands.h"
#include "lockstep/launch/exit_code.h"
#include "lockstep/launch/find_program.h"

namespace lockstep::cli {
namespace {

int Execute(const std::string& command, const absl::StatusOr<std::string>& program,
            const std::vector<std::string>& arguments) {
  if (!program.ok()) {
    std::fprintf(stderr, "lockstep %s: %s\n", command.c_str(),
                 std::string(program.status().message()).c_str());
    return absl::IsNotFound(program.status()) ? launch::kExitNotFound : launch::kExitCannotExecute;
  }
  std::vector<std::string> words = {*program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(program->c_str(), pointers.data());
  std::fprintf(stderr, "lockstep %s: cannot execute %s: %s\n", command.c_str(), program->c_str(),
               std::strerror(errno));
  return launch::kExitCannotExecute;
}

}  // namespace

void AddServe(CLI::App& app, Invocation& invocation) {
  // For the table only: `main` calls ExecuteServer before anything is parsed, so that the server's
  // flags, --help too, are the server's business.
  CLI::App* const serve = app.add_subcommand(
      "serve", "Run the server: executes lockstep-server with the same arguments");
  serve->prefix_command();
  serve->callback([&invocation] { invocation.exit_code = launch::kExitUsage; });
}

void AddAgent(CLI::App& app, Invocation& invocation) {
  CLI::App* const agent = app.add_subcommand(
      "agent", "Run the agent of a host: executes lockstep-agent with the same arguments");
  agent->prefix_command();
  agent->callback([&invocation] { invocation.exit_code = launch::kExitUsage; });
}

int ExecuteServer(const std::string& command, const std::vector<std::string>& arguments) {
  return Execute(command, launch::FindServer(), arguments);
}

int ExecuteAgent(const std::vector<std::string>& arguments) {
  return Execute("agent", launch::FindAgent(), arguments);
}

}  // namespace lockstep::cli

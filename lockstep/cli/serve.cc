// `lockstep serve`: the server is a program of its own, since it is linked to gRPC and this one
// must not be.
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

void AddServe(CLI::App& app, Invocation& invocation) {
  // For the table only: `main` calls ExecuteServer before anything is parsed, so that the server's
  // flags, --help too, are the server's business.
  CLI::App* const serve = app.add_subcommand(
      "serve", "Run the server: executes lockstep-server with the same arguments");
  serve->prefix_command();
  serve->callback([&invocation] { invocation.exit_code = launch::kExitUsage; });
}

int ExecuteServer(const std::string& command, const std::vector<std::string>& arguments) {
  const absl::StatusOr<std::string> server = launch::FindServer();
  if (!server.ok()) {
    std::fprintf(stderr, "lockstep %s: %s\n", command.c_str(),
                 std::string(server.status().message()).c_str());
    return absl::IsNotFound(server.status()) ? launch::kExitNotFound : launch::kExitCannotExecute;
  }
  std::vector<std::string> words = {*server};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(server->c_str(), pointers.data());
  std::fprintf(stderr, "lockstep %s: cannot execute %s: %s\n", command.c_str(), server->c_str(),
               std::strerror(errno));
  return launch::kExitCannotExecute;
}

}  // namespace lockstep::cli

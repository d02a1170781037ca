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

void AddServe(CLI::App& app, int& exit_code) {
  // For the table only: `main` calls ExecuteServer before anything is parsed, so that the server's
  // flags, --help too, are the server's business.
  CLI::App* const serve =
      app.add_subcommand("serve", "Serve jobs: executes lockstep-server with the same arguments");
  serve->prefix_command();
  serve->callback([&exit_code] { exit_code = launch::kExitUsage; });
}

int ExecuteServer(int argc, char** argv) {
  const absl::StatusOr<std::string> server = launch::FindServer();
  if (!server.ok()) {
    std::fprintf(stderr, "lockstep serve: %s\n", std::string(server.status().message()).c_str());
    return absl::IsNotFound(server.status()) ? launch::kExitNotFound : launch::kExitCannotExecute;
  }
  std::vector<char*> arguments;
  std::string name = *server;
  arguments.push_back(name.data());
  for (int i = 2; i < argc; ++i) arguments.push_back(argv[i]);
  arguments.push_back(nullptr);
  ::execv(server->c_str(), arguments.data());
  std::fprintf(stderr, "lockstep serve: cannot execute %s: %s\n", server->c_str(),
               std::strerror(errno));
  return launch::kExitCannotExecute;
}

}  // namespace lockstep::cli

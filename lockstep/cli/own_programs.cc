#include "lockstep/cli/own_programs.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/agent/exit_code.h"
#include "lockstep/base/check.h"

namespace lockstep::cli {

void OwnPrograms::StartServer(const launch::PrivateServerOptions& options, Ready ready) {
  is_server_ = true;
  Start(options, "the coordinator's server", std::move(ready));
}

void OwnPrograms::StartAgent(launch::PrivateServerOptions options, const launch::JobAddress& server,
                             bool fences, Ready ready) {
  fences_ = fences;
  options.job = server.job;
  std::vector<std::string>& arguments = options.command.arguments;
  arguments.insert(arguments.end(), {"--coordinator", server.link, "--job", server.job});
  Start(options, "the agent of this host", [server, ready = std::move(ready)](auto address) {
    if (!address.ok()) return ready(address.status());
    launch::JobAddress by_agent = server;
    by_agent.grpc = address->grpc;
    ready(std::move(by_agent));
  });
}

void OwnPrograms::Start(const launch::PrivateServerOptions& options, const char* what,
                        Ready ready) {
  LOCKSTEP_DCHECK(program_ == nullptr);
  launch::PrivateServer::Callbacks callbacks;
  callbacks.ready = std::move(ready);
  callbacks.ended = [this, what](launch::ExitStatus ending) {
    callbacks_.ended(
        {.ending = ending,
         .what = what,
         .cut_off = !is_server_ && (fences_ || ending.exit_code == agent::kExitCutOff)},
        program_->LastWords());
  };
  if (options.show_log) callbacks.log = callbacks_.log;
  program_ =
      std::make_unique<launch::PrivateServer>(loop_, guardian_, options, std::move(callbacks));
  program_->Start();
}

void OwnPrograms::Stop(std::function<void()> done) {
  if (program_ == nullptr) return done();
  program_->Stop(std::move(done));
}

}  // namespace lockstep::cli

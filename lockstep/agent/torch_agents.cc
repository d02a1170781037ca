#include "lockstep/agent/torch_agents.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/platform/runtime/dial.h"

namespace lockstep::agent {

TorchAgents::TorchAgents(runtime::Loop& loop, const Options& options,
                         std::function<void(std::string)> say)
    : loop_(loop),
      say_(std::move(say)),
      engine_(client::Engine::Start({.servers = options.coordinator,
                                     .who = "lockstep run, for torch's clients",
                                     .machine = {.job = options.job, .grace = options.patience}})) {
}

TorchAgents::~TorchAgents() {
  agent_.reset();
  engine_->Close();
}

absl::StatusOr<std::string> TorchAgents::Serve(int64_t attempt) {
  agent_ = std::make_unique<TorchAgent>(
      loop_, engine_, TorchAgent::Options{.attempt = attempt},
      [say = say_](const std::string& text) { say(absl::StrCat("torch's store: ", text)); });
  absl::Status status = agent_->Listen({.host = "127.0.0.1", .port = 0});
  if (!status.ok()) return status;
  agent_->Start();
  return runtime::ToString(agent_->address());
}

}  // namespace lockstep::agent

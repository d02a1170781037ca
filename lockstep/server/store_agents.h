// A job's side of the commands of torch's clients that agents pass on.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "lockstep/base/ids.h"
#include "lockstep/server/native_listener.h"
#include "lockstep/server/store_host.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::server {

// Finds the store that a command is for.
//
// Threads: loop-confined. Bounds: PassedTorchCommands'.
class StoreAgents final : public TorchCommands {
 public:
  // `durable`: the store outlives the server. `say`: for the log. `stores` outlives it.
  StoreAgents(StoreHost& stores, bool durable, std::function<void(std::string)> say)
      : stores_(stores), durable_(durable), say_(std::move(say)) {}

  absl::Status Begin(CallId call, SessionId agent, const std::string& peer,
                     const wire::native::TorchCommand& asked) override;
  void Left(CallId call, bool away) override;
  // The session is over, and its connections are.
  void AgentGone(SessionId agent);

 private:
  StoreHost& stores_;
  const bool durable_;
  const std::function<void(std::string)> say_;
  bool said_ = false;  // that agents cannot help a store that is not durable
};

}  // namespace lockstep::server

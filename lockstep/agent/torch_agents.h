// For launchers: the agent of a host for torch's clients, attempt by attempt.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/agent/torch_agent.h"
#include "lockstep/client/engine.h"
#include "lockstep/platform/link/servers.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::agent {

// Each attempt has an address of its own, so that a process that outlived its attempt finds nobody
// of the next one.
//
// Threads: loop-confined. Ownership: `loop` outlives it. Bounds: TorchAgent's.
class TorchAgents {
 public:
  struct Options {
    std::shared_ptr<link::Servers> coordinator;
    std::string job;
    // How long commands wait for a server that is away.
    absl::Duration patience = absl::Minutes(10);
  };

  // Opens a session, which the first commands wait for. `say`: for people.
  TorchAgents(runtime::Loop& loop, const Options& options, std::function<void(std::string)> say);
  ~TorchAgents();

  // HOST:PORT of the attempt's store on this host; who was connected to the one before is not any
  // more. UNAVAILABLE or RESOURCE_EXHAUSTED: there is no port or no descriptor left.
  absl::StatusOr<std::string> Serve(int64_t attempt);

 private:
  runtime::Loop& loop_;
  const std::function<void(std::string)> say_;
  const std::shared_ptr<client::Engine> engine_;
  std::unique_ptr<TorchAgent> agent_;  // null: no attempt has begun
};

}  // namespace lockstep::agent

// The agent of a host, for one job: stock clients call it as they would call the server, and it
// passes their calls on in a session of its own, which outlives links and servers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/hosts/contact.h"
#include "lockstep/platform/link/servers.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/complaints.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/peer_owner.h"

namespace lockstep::agent {

struct AgentOptions {
  std::shared_ptr<link::Servers> coordinator;
  std::string job;
  runtime::Address listen = {.host = "127.0.0.1", .port = 0};
  runtime::Address torch_listen = {.host = "127.0.0.1", .port = 0};
  // Where other agents fetch long answers; absent: this one takes no part in that.
  std::optional<runtime::Address> peer_listen = runtime::Address{.host = "::", .port = 0};
  // Whose processes may call.
  runtime::AllowedPeers allowed = {};
  // How long calls wait for a server that is away: `agent_patience`.
  absl::Duration patience = absl::Minutes(10);
  // What it does with its processes when the host is cut off.
  hosts::OnPartition on_partition = hosts::OnPartition::kStop;
  // The launcher that started it, as that calls itself to the server; 0: none did.
  uint64_t node = 0;
  // How long `Start` waits for the server.
  absl::Duration start_timeout = absl::Seconds(20);
};

// Terminates the protocol of stock clients and decides nothing else: each call is a numbered
// request of one session, retried after a broken link, whose effect happens once. Cancelled calls
// are reported at once. While the server is unreachable, calls wait and heartbeats are answered
// here (HeartbeatAnswers). It tells the server and other agents that this host lives (Pulse), and
// has long answers that many hosts wait for from other agents (StockCalls).
//
// Threads: made and destroyed while the loop does not run; calls come on gRPC's. Ownership: `loop`
// outlives it. Bounds: those of net::AgentListener and of a client session
// (client_calls_max, client_call_bytes_max).
class Agent {
 public:
  struct Events {
    // Once, from any thread: the server was away for the whole patience, or has forgotten the
    // session. Every call fails from then on.
    std::function<void(absl::Status why)> lost;
    // Once, from a thread that must not be held up: the host is cut off, and all processes that
    // call the agent have to end at once.
    std::function<void(const std::string& why)> cut_off;
    // For the log, from any thread.
    std::function<void(std::string)> server_news;  // it is out of reach, or is back
    runtime::Complain complain;
  };

  // Binds the address and opens the session; serves once the loop runs. INVALID_ARGUMENT,
  // NOT_FOUND (unknown_job), PERMISSION_DENIED (not_permitted: it takes a launch token),
  // DEADLINE_EXCEEDED: no server within `start_timeout`; UNAVAILABLE: the address cannot be had;
  // FAILED_PRECONDITION: other hosts can reach it.
  static absl::StatusOr<std::unique_ptr<Agent>> Start(runtime::Loop& loop, AgentOptions options,
                                                      Events events);
  // Ends the session: members whose calls are open are lost. Blocks until all calls are answered.
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // HOST:PORT for stock clients of gRPC, and for torch's.
  std::string address() const;
  std::string torch_address() const;

 private:
  class Impl;
  explicit Agent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::agent

// Forwards the calls of a host's stock clients to the server.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "lockstep/agent/heartbeat_answers.h"
#include "lockstep/base/mutex.h"
#include "lockstep/client/engine.h"
#include "lockstep/stock/grpc/agent_listener.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::agent {

// Turns each call into a request of the host's session, and the server's answer into the caller's.
// The session numbers requests and retries them, so the only thing decided here is which heartbeats
// are answered at once (HeartbeatAnswers). Calls nothing that waits. What is open when the session
// is closed fails with UNAVAILABLE (agent_ended).
//
// Threads: thread-safe. Ownership: open calls keep it; `Ask` is not called after the last `Begin`.
// Bounds: HeartbeatAnswers; calls, those of the session.
class CallForwarder : public std::enable_shared_from_this<CallForwarder> {
 public:
  using Answer = net::AgentListener::Answer;
  // Asks the server; `done` is called once, from any thread, and may be before this returns.
  // Returns what withdraws the request, after which `done` is called all the same.
  using Reply = absl::StatusOr<wire::native::StockCallReply>;
  using Ask =
      std::function<std::function<void()>(client::Request, std::function<void(Reply)> done)>;

  explicit CallForwarder(Ask ask) : ask_(std::move(ask)) {}

  // As net::AgentListener::Begin: returns what to call if the caller leaves; null: nothing.
  std::function<void()> Begin(net::AgentCall call, Answer answer);

  // Calls that failed since the session was closed.
  size_t cut_short() const { return cut_short_; }

 private:
  std::function<void()> PassOn(const net::AgentCall& call, Answer answer);
  std::function<void()> Register(const net::AgentCall& call, Answer answer);
  std::function<void()> Beat(net::AgentCall call, Answer answer);

  const Ask ask_;
  std::atomic<size_t> cut_short_ = 0;
  Mutex mutex_;
  HeartbeatAnswers heartbeats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::agent

// The calls of a host's stock clients, as requests of the agent's session.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/agent/value_exchange.h"
#include "lockstep/base/mutex.h"
#include "lockstep/base/time.h"
#include "lockstep/client/engine.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::agent {

// Makes calls over the session. Where the server says that another agent has the answer, fetches it
// there, and falls back to the server (ValueExchange); the caller sees none of it.
//
// Threads: `Call`, and what it returns, are thread-safe; the rest as ValueExchange. Ownership:
// `loop` outlives it, and what the callbacks use outlives `Close`. Bounds: those of the session and
// of ValueExchange.
class StockCalls {
 public:
  using Reply = wire::native::StockCallReply;
  using Done = std::function<void(absl::StatusOr<Reply>)>;

  struct Options {
    // Where other agents reach this one; none: it takes no part, and the server sends it all.
    bool takes_part = true;
    runtime::Address listen = {.host = "::", .port = 0};
    PeerValues::Options values;
    std::function<void(std::string)> say = nullptr;  // for the log
  };

  // UNAVAILABLE: the port cannot be had.
  static absl::StatusOr<std::unique_ptr<StockCalls>> Listen(runtime::Loop& loop, Options options);
  ~StockCalls();
  StockCalls(const StockCalls&) = delete;
  StockCalls& operator=(const StockCalls&) = delete;

  // For SessionMachine::Options; 0: it takes no part.
  uint16_t port() const { return options_.takes_part ? exchange_.port() : 0; }
  // Calls go over this session, of which the port was told. Before any call.
  void Start(std::shared_ptr<client::Engine> engine);

  // `done` comes once, on any thread, before this returns or later; with the answer, or what the
  // session says. Returns what cancels the call: it gets CANCELLED, unless it is completed.
  std::function<void()> Call(client::Request request, Done done);

  // Completes what is open with CANCELLED. After the session was closed, and while the loop does
  // not run or on it. Idempotent.
  void Close();

  // Agents that are being served now.
  size_t peers() const { return exchange_.peers(); }

 private:
  struct Asked;
  using AskedPtr = std::shared_ptr<Asked>;
  using FanOut = wire::native::FanOut;

  StockCalls(runtime::Loop& loop, Options options);
  void Ask(const AskedPtr& call);
  void Answered(const AskedPtr& call, std::string answer);
  // Its answer is elsewhere.
  void Follow(const AskedPtr& call, FanOut fan_out);
  void Cancel(const AskedPtr& call);
  // Nothing: it was ended.
  AskedPtr Take(uint64_t number);
  void Ended(PeerValues::Effects::EndedCall&& ended);
  void AskServer(const PeerValues::Ticket& ticket);
  void ServerAnswered(const PeerValues::Ticket& ticket, client::Engine::Answer answer);
  PeerValues::Source SourceOf(FanOut& fan_out) const;
  // On the loop, unless this has gone.
  void Post(std::function<void()> function);

  runtime::Loop& loop_;
  const Options options_;
  std::shared_ptr<client::Engine> engine_;
  ValueExchange exchange_;  // the loop's
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);

  Mutex mutex_;
  // Whose answers are elsewhere.
  absl::flat_hash_map<uint64_t, AskedPtr> following_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::agent

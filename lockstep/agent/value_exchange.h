// Agents fetch long answers from each other (docs/formats/fan_out.md).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "lockstep/agent/peer_values.h"
#include "lockstep/agent/value_fetch.h"
#include "lockstep/agent/value_peer.h"
#include "lockstep/platform/runtime/acceptor.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::agent {

// A PeerValues with sockets and a clock: a listener for the agents that fetch from this one, and a
// connection for each answer that this one fetches.
//
// Threads: loop-confined, but everything may be called while the loop does not run. Ownership:
// `loop` outlives it. Bounds: PeerValues's; kDescriptorsLeft. Others learn nothing here without a
// ticket, and only ciphertext with one.
class ValueExchange {
 public:
  struct Events {
    // A call that was told where its answer is has it, or not. Once each; not after `Stop`.
    std::function<void(PeerValues::Effects::EndedCall)> ended;
    // `Given` or `ServerFailed` follows.
    std::function<void(const PeerValues::Ticket&)> ask_server;
    std::function<void(std::string)> complain;  // for the log
  };

  ValueExchange(runtime::Loop& loop, PeerValues::Options options, Events events);
  ~ValueExchange() { Stop(); }
  ValueExchange(const ValueExchange&) = delete;
  ValueExchange& operator=(const ValueExchange&) = delete;

  // Takes a port. UNAVAILABLE: it cannot be had.
  absl::Status Listen(const runtime::Address& at);
  uint16_t port() const { return acceptor_.address().port(); }
  // Serves others from now on.
  void Start() { acceptor_.Start(); }
  // Closes everything, for good; nothing is told any more.
  void Stop();

  // As PeerValues.
  void Told(const PeerValues::Ticket& ticket, PeerValues::Source source,
            PeerValues::CallNumber call, Time deadline);
  void Given(const PeerValues::Ticket& ticket, PeerValues::Source source, PeerValues::Value value);
  void ServerFailed(const PeerValues::Ticket& ticket);
  void CallLeft(PeerValues::CallNumber call) { values_.CallLeft(call); }

  size_t peers() const { return values_.sizes().peers; }

 private:
  // Of the process's, for others than agents that fetch.
  static constexpr size_t kDescriptorsLeft = 256;

  static runtime::AcceptorOptions Accepting();
  void TakeSocket(int fd);
  void Fetch(const PeerValues::Effects::Fetch& fetch);
  void PeerEnded(PeerValues::PeerNumber number);
  void Carry(PeerValues::Effects&& effects);

  runtime::Loop& loop_;
  const Events events_;
  const absl::Duration patience_;
  PeerValues values_;
  std::map<PeerValues::Ticket, std::unique_ptr<ValueFetch>> fetches_;
  std::map<PeerValues::PeerNumber, std::unique_ptr<ValuePeer>> peers_;
  PeerValues::PeerNumber last_peer_ = 0;
  bool stopped_ = false;
  runtime::Timer timer_;
  runtime::Acceptor acceptor_;
};

}  // namespace lockstep::agent

// Serves a long answer to one other agent.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "asio/ip/tcp.hpp"
#include "lockstep/agent/peer_values.h"

namespace lockstep::agent {

// The connection of an agent that asks for one answer: takes its request, gives hints while the
// answer is on its way, and then the answer, sealed chunk by chunk as the other end takes it. Waits
// for as long as its owner lets it: the owner knows the time-outs.
//
// Threads: loop-confined. Destroyed, it calls nothing any more. Bounds: the request, and a sealed
// chunk.
class ValuePeer {
 public:
  struct Events {
    std::function<void(PeerValues::Ticket)> asked;  // once
    std::function<void()> took;                     // some of what was sent
    // Once, and nothing after it, in which this may be destroyed: it has everything or has gone, or
    // asked for something else.
    std::function<void()> ended;
  };

  ValuePeer(asio::ip::tcp::socket socket, Events events);
  ~ValuePeer();
  ValuePeer(const ValuePeer&) = delete;
  ValuePeer& operator=(const ValuePeer&) = delete;

  // After `asked`.
  void Hint();
  void Serve(const PeerValues::Effects::Serving& serving);

 private:
  class Impl;  // lives as long as what it has asked of the system
  const std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::agent

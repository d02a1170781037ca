// The agents of many hosts in one program, each with a session of its own over a socket of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "bench/coordination/native/peer.h"

namespace lockstep::bench {

// A Peer whose clients, `ranks_per_host` to an agent, make the calls of jaxlib's clients.
class Agents : public Peer {
 public:
  // The agent of this client ends without a word, and its clients with it.
  virtual void KillAgentOf(size_t client) = 0;
};

// `fan_out`: the agents have long answers from each other.
std::unique_ptr<Agents> MakeAgents(const std::string& address, const std::string& job,
                                   size_t ranks_per_host, bool fan_out);

}  // namespace lockstep::bench

// Fetches one long answer from another agent.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "lockstep/agent/peer_values.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::agent {

// Connects, asks, and takes what comes as far as the key proves it. Waits for as long as its owner
// lets it: the owner knows the time-outs.
//
// Threads: loop-confined. Ownership: `loop` outlives it. Destroyed, it calls nothing any more.
// Bounds: the answer, and a sealed chunk.
class ValueFetch {
 public:
  struct Events {
    std::function<void()> progressed;
    // Once, and nothing after it, in which this may be destroyed; null: it failed.
    std::function<void(PeerValues::Value)> done;
  };

  // `connect_timeout`: then it has failed.
  ValueFetch(runtime::Loop& loop, const PeerValues::Effects::Fetch& fetch,
             absl::Duration connect_timeout, Events events);
  ~ValueFetch();
  ValueFetch(const ValueFetch&) = delete;
  ValueFetch& operator=(const ValueFetch&) = delete;

 private:
  class Impl;  // lives as long as what it has asked of the system
  const std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::agent

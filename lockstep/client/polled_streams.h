// The streams that the loop looks after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/transport/stream.h"

namespace lockstep::client {

// As of runtime::Poller. Also tells the other ends which of the arena's segments are gone, so that
// their memory, which is mapped there, goes back to the system.
//
// Threads: loop-confined, without the mutex, which is that of the streams.
class PolledStreams {
 public:
  PolledStreams(const transport::Arena& arena, Mutex& mutex) : arena_(arena), mutex_(mutex) {}

  // Polled from the current round on.
  void Add(std::shared_ptr<transport::Stream> stream) { streams_.push_back(std::move(stream)); }
  // Not from within `Poll`.
  void Remove(const std::shared_ptr<transport::Stream>& stream) { std::erase(streams_, stream); }
  // Lets go of all. Closes none: that needs the mutex.
  void Clear() { streams_.clear(); }

  // Whether something came. What is called back may add streams, and remove none.
  bool Poll() {
    bool any = false;
    for (size_t i = 0; i < streams_.size(); ++i) any |= streams_[i]->Poll();
    return any;
  }
  // False: something has come to one of them meanwhile, so the loop must not sleep.
  bool PrepareToSleep() {
    for (const auto& stream : streams_) {
      if (!stream->PrepareToSleep()) return false;
    }
    return true;
  }
  // After a sleep: writers need not ring any more.
  void Awake() {
    for (const auto& stream : streams_) stream->Awake();
  }
  // Does nothing, and takes no mutex, while the arena has removed none since the last time.
  void TellOfRemovedSegments() {
    const uint64_t removed = arena_.segments_removed();
    if (std::exchange(segments_removed_, removed) == removed) return;
    const MutexLock lock(mutex_);
    for (const auto& stream : streams_) stream->Unshare(arena_);
  }

 private:
  const transport::Arena& arena_;
  Mutex& mutex_;
  std::vector<std::shared_ptr<transport::Stream>> streams_;
  uint64_t segments_removed_ = 0;  // that the others were told of
};

}  // namespace lockstep::client

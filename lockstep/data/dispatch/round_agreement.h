// Agreeing on a future round, from which on all consumers read otherwise than before. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "lockstep/data/dispatch/ids.h"

namespace lockstep::dispatch {

// Proposes a target round and hears from the consumers whether they can still stop before it. A
// consumer that has begun it already makes the target move further away, each time twice as far;
// one that has blocked itself before it is ready. When all are, the target is agreed on.
//
//   Begin -> target = latest + 1 --a consumer has begun it--> latest + 2, + 4, + 8...
//                 '--all have blocked themselves at it or earlier--> agreed
//
// Nothing depends on how long anybody takes, and nobody is asked to stand still until all can.
class RoundAgreement {
 public:
  // `latest`: the highest round that anybody has begun; -1: none.
  void Begin(int64_t latest) {
    target_ = latest + 1;
    delta_ = 1;
    ready_.clear();
    open_ = true;
  }
  void End() { open_ = false; }  // agreed on, or not wanted any more

  bool open() const { return open_; }         // between `Begin` and `End`
  int64_t target() const { return target_; }  // the round that is proposed; moves further only
  // It stops before the target.
  bool ready(ConsumerId consumer) const { return ready_.count(consumer) > 0; }
  size_t ready_count() const { return ready_.size(); }  // of them; the caller knows of how many

  // What a consumer says of itself: the latest round that it has begun, and the one that it does
  // not begin before it is told to. `latest`: of all. True: the target had to move.
  bool Report(ConsumerId consumer, int64_t round, std::optional<int64_t> blocked, int64_t latest) {
    bool moved = false;
    if (round >= target_) {
      delta_ *= 2;
      target_ = latest + delta_;
      ready_.clear();
      moved = true;
    }
    if (blocked && *blocked <= target_ && round < *blocked) ready_.insert(consumer);
    return moved;
  }
  // It is gone, or comes back as another process: what it said does not count.
  void Forget(ConsumerId consumer) { ready_.erase(consumer); }

 private:
  bool open_ = false;
  int64_t target_ = 0;
  int64_t delta_ = 1;
  std::set<ConsumerId> ready_;
};

}  // namespace lockstep::dispatch

// The virtual clock of a simulation. Pure.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::sim {

// What is to happen, in the order of (time, serial number): ties happen in the order in which they
// were scheduled, so that a run depends on nothing but its seed. Time jumps from one action to the
// next. Actions cannot be taken back: one that has lost its reason finds that out for itself.
class Schedule {
 public:
  using Action = absl::AnyInvocable<void()>;

  Time now() const { return now_; }

  // Not before now: an earlier time means now.
  void At(Time at, Action action);
  void After(absl::Duration delay, Action action) { At(now_ + delay, std::move(action)); }

  // Runs the next action, if there is one and it comes no later than `end`; else the clock stands
  // at `end`, and it returns false.
  bool RunNext(Time end);

 private:
  struct Entry {
    Time at;
    uint64_t serial;
    mutable Action action;  // moved out of the queue, which only shows constants
    bool operator<(const Entry& other) const {
      return at != other.at ? at > other.at : serial > other.serial;
    }
  };

  Time now_;
  uint64_t serials_ = 0;
  std::priority_queue<Entry> entries_;
};

}  // namespace lockstep::sim

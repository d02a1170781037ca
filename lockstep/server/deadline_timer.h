// A timer for a deadline that moves a little with most of what happens.
#pragma once

#include <utility>

#include "lockstep/base/time.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::server {

// Threads: loop-confined, but everything may be called while the loop does not run. The loop
// outlives it.
class DeadlineTimer {
 public:
  // `reached` is called on the loop by the deadline, and sometimes before it.
  DeadlineTimer(runtime::Loop& loop, runtime::Loop::Function reached)
      : reached_(std::move(reached)), timer_(loop) {}

  // `deadline` holds from here; infinite: there is none.
  //
  // A timer that is armed for earlier is left: it comes for nothing once, and that is cheaper than
  // arming anew each time the deadline moves a little later.
  void MoveTo(Time deadline) {
    if (deadline >= armed_for_) return;
    armed_for_ = deadline;
    timer_.Arm(deadline, [this] {
      // Before the call, which may move the deadline.
      armed_for_ = Time::Infinite();
      reached_();
    });
  }

 private:
  runtime::Loop::Function reached_;
  Time armed_for_ = Time::Infinite();
  runtime::Timer timer_;
};

}  // namespace lockstep::server

// Keeps the loop awake while requests come close together.
#pragma once

#include <utility>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::net {

// Most of the time of a short answer is the waking of the thread that gives it. So after two
// requests within `period` the loop polls for that long instead of sleeping. Zero: never.
//
// Threads: loop-confined.
class BusyPoll {
 public:
  BusyPoll(runtime::Loop& loop, absl::Duration period) : loop_(loop), period_(period) {}

  // Bytes have come.
  void Came() {
    const Time now = runtime::MonotonicNow();
    const Time before = std::exchange(last_, now);
    if (now - before < period_) loop_.StayAwakeUntil(now + period_);
  }

 private:
  runtime::Loop& loop_;
  const absl::Duration period_;
  Time last_;
};

}  // namespace lockstep::net

// Lines for a log that strangers cause, and must not fill.
#pragma once

#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::runtime {

// What went wrong, at most one line per `kComplaintInterval`.
using Complain = absl::AnyInvocable<void(std::string)>;
inline constexpr absl::Duration kComplaintInterval = absl::Seconds(10);

// Says the first, and then one an interval; the others are dropped. Threads: thread-compatible.
class Complaints {
 public:
  explicit Complaints(Complain say) : say_(std::move(say)) {}

  void Say(std::string text) {
    const Time now = MonotonicNow();
    if (say_ == nullptr || now < next_) return;
    next_ = now + kComplaintInterval;
    say_(std::move(text));
  }

 private:
  Complain say_;
  Time next_;
};

}  // namespace lockstep::runtime

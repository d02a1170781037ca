// How fast a program asks for elements. Pure.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::dispatch {

// The time between two elements that the program asked for, averaged so that recent ones count
// more. From it the dispatcher estimates how many workers are needed.
class AskTimer {
 public:
  // The program asks; so many elements were handed out before. `waits`: an earlier ask is open.
  void NoteAsk(Time now, int64_t handed_out, bool waits) {
    // Asking again, after an ask that brought nothing, is no sign of haste.
    if (handed_out > timed_ && !waits) {
      const absl::Duration sample = (now - asked_at_) / (handed_out - timed_);
      element_time_ =
          element_time_ == absl::ZeroDuration() ? sample : element_time_ * 0.9 + sample * 0.1;
      timed_ = handed_out;
      asked_at_ = now;
    }
    if (handed_out == 0) asked_at_ = now;
  }
  absl::Duration element_time() const { return element_time_; }  // 0: not known

 private:
  Time asked_at_;
  int64_t timed_ = 0;  // what was handed out when `asked_at_` was taken
  absl::Duration element_time_;
};

}  // namespace lockstep::dispatch

// The failures of a run that come quickly after each other, or read the same. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace lockstep::node_group {

// What failed soon after its attempt's start may do so again: the next attempt waits ever longer,
// and after too many failures that read the same but for numbers none helps.
//
// Threads: thread-compatible.
class FailureStreak {
 public:
  // An attempt failed. `quick`: soon after its start. `text`: how; empty: nothing to compare.
  void Count(bool quick, const std::string& text);

  // In a row, as the next.
  int32_t quick() const { return quick_; }
  int32_t alike() const { return alike_; }
  // Before the next attempt: `first` after two quick failures, doubled with each that follows, up
  // to `last`. Zero: it may begin at once.
  absl::Duration BackOff(absl::Duration first, absl::Duration last) const;

 private:
  int32_t quick_ = 0;
  int32_t alike_ = 0;  // of those, with this text
  std::string text_;   // of the last, without numbers
};

}  // namespace lockstep::node_group

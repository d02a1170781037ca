#include "lockstep/launch/node_group/failure_streak.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::node_group {
namespace {

// Two failures that differ in pids, durations and ranks alone are the same.
std::string WithoutNumbers(const std::string& text) {
  std::string without;
  for (const char c : text) {
    if (c < '0' || c > '9') without.push_back(c);
  }
  return without;
}

}  // namespace

void FailureStreak::Count(bool quick, const std::string& text) {
  quick_ = quick ? quick_ + 1 : 0;
  const std::string without = WithoutNumbers(text);
  // A failure after a long time, or one without a text, says nothing about the next.
  const bool comparable = quick && !text.empty();
  if (!comparable) {
    alike_ = 0;
  } else {
    alike_ = without == text_ ? alike_ + 1 : 1;
  }
  // Also of a failure that starts a new row: the next is compared with it.
  text_ = without;
  LOCKSTEP_DCHECK(alike_ <= quick_);
}

absl::Duration FailureStreak::BackOff(absl::Duration first, absl::Duration last) const {
  if (quick_ < 2 || first <= absl::ZeroDuration()) return absl::ZeroDuration();
  absl::Duration wait = first;
  // Bounded by `last`, so that a long row cannot overflow the wait.
  for (int32_t i = 2; i < quick_ && wait < last; ++i) wait *= 2;
  return std::min(wait, last);
}

}  // namespace lockstep::node_group

#include "lockstep/launch/restart_policy.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::launch {

bool RestartPolicy::AllowsAll() const {
  return options_.scope != RestartScope::kRank && used_ < options_.max_restarts;
}

bool RestartPolicy::AllowsAlone(int32_t restarts) const {
  return options_.scope == RestartScope::kRank && restarts < options_.max_restarts;
}

int32_t RestartPolicy::CountAlike(const std::string& text) const {
  int32_t count = 1;
  for (auto it = texts_.rbegin(); it != texts_.rend() && *it == text; ++it) ++count;
  return count;
}

absl::Duration RestartPolicy::BackOff(const std::string& text, absl::Duration lasted) {
  if (!IsEarly(lasted)) texts_.clear();
  if (IsEarly(lasted)) texts_.push_back(text);
  if (texts_.size() > static_cast<size_t>(options_.same_failures_max)) texts_.pop_front();

  LOCKSTEP_DCHECK(texts_.size() <= static_cast<size_t>(options_.same_failures_max));
  quick_failures_ = lasted < options_.quick_failure ? quick_failures_ + 1 : 0;
  if (quick_failures_ < 2) return absl::ZeroDuration();
  absl::Duration wait = options_.restart_backoff;
  for (int32_t i = 2; i < quick_failures_ && wait < options_.restart_backoff_max; ++i) wait *= 2;
  return std::min(wait, options_.restart_backoff_max);
}

}  // namespace lockstep::launch

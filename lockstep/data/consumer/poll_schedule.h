// When a consumer's next poll is due. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::dispatch {

// News that the dispatcher acts on make a poll urgent; what only has to be recorded waits for
// others of its kind, `report_every` at the longest.
class PollSchedule {
 public:
  explicit PollSchedule(absl::Duration report_every) : report_every_(report_every) {}

  // A poll is due now, and until one is sent.
  void Urgent() { urgent_ = true; }
  // A poll is due `report_every` from now, unless an earlier one is.
  void Soon(Time now) { report_at_ = std::min(report_at_, now + report_every_); }

  bool IsDue(Time now) const { return urgent_ || report_at_ <= now; }
  // A poll carries all news now: returns its number, from 1 up.
  int64_t Send() {
    urgent_ = false;
    report_at_ = Time::Infinite();
    return ++number_;
  }
  // No poll will be sent for what waits.
  void DropReports() { report_at_ = Time::Infinite(); }
  // When a poll is due for what waits; infinite: nothing waits. An urgent one is due at once.
  Time report_at() const { return report_at_; }

 private:
  const absl::Duration report_every_;
  bool urgent_ = false;
  Time report_at_ = Time::Infinite();
  int64_t number_ = 0;
};

}  // namespace lockstep::dispatch

// What became of the links of a conversation, for its rules and its texts. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::transport {

// In whole milliseconds, or seconds when it is long.
inline std::string TextOf(absl::Duration duration) {
  const auto unit = duration >= absl::Seconds(10) ? absl::Seconds(1) : absl::Milliseconds(1);
  return absl::FormatDuration(absl::Trunc(duration, unit));
}

// Threads: thread-compatible.
class LinkHistory {
 public:
  // There has been no link since now, for `WhyLost`.
  void Start(Time now) { down_since_ = now; }
  void DialStarted() { ++dials_; }
  void DialFailed(const absl::Status& why) { last_failure_ = why; }
  // Dials are counted anew from here.
  void LinkUp(Time now) {
    was_up_ = true;
    up_at_ = now;
    dials_ = 0;
  }
  // Whether it had been good: it lasted for a while.
  bool LinkLost(Time now, const absl::Status& why) {
    last_failure_ = why;
    down_since_ = now;
    return now - up_at_ >= kGoodLink;
  }

  // When the link was lost, or when it started; the grace counts from here.
  Time down_since() const { return down_since_; }
  // Why there is no link to that peer, when the grace is over.
  std::string WhyLost(Time now, const std::string& peer, bool we_dial, absl::Duration grace) const {
    const std::string tried = we_dial ? absl::StrCat(", in ", dials_, " attempts to connect")
                                      : std::string(", and has not connected again");
    return absl::StrCat(
        "no link to ", peer, was_up_ ? " any more" : "", " for ", TextOf(now - down_since_), tried,
        last_failure_.ok() ? "" : absl::StrCat(" (the last: ", last_failure_.message(), ")"),
        "; the grace of ", TextOf(grace),
        " is over: look whether it runs, and whether its address can be reached from here");
  }

 private:
  static constexpr absl::Duration kGoodLink = absl::Seconds(1);

  Time down_since_;
  Time up_at_;
  bool was_up_ = false;
  int64_t dials_ = 0;  // since the link was lost
  absl::Status last_failure_;
};

}  // namespace lockstep::transport

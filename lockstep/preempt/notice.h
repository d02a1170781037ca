// What a look at the outside world has found: values that the machines of the sources make, and
// that notice_book.h compares with what it was told before. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/preempt/source.h"

namespace lockstep::preempt {

// Both clocks at one moment. Clouds name moments by the wall clock; everything of ours goes by the
// steady one.
struct Now {
  Time steady;
  absl::Time wall;
};

// The steady moment at which the wall clock shows `wall`, if nobody sets it.
inline Time SteadyAt(const Now& now, absl::Time wall) { return now.steady + (wall - now.wall); }

// Something that stands in the outside world, as long as it stands.
struct Notice {
  std::string id;
  NoticeKind kind = NoticeKind::kPreempt;
  std::optional<Time> death;           // when, where the source says so
  std::optional<absl::Duration> lead;  // else how long after it was first seen, where that is known
  std::string text;

  friend bool operator==(const Notice&, const Notice&) = default;
};

// What one look came to.
struct Sight {
  // Why nothing, or not everything, could be seen.
  absl::Status health;
  // All that stand now; absent: it cannot be told this time, so what stood before stands.
  std::optional<std::vector<Notice>> notices;
  // Until the next look.
  absl::Duration next;
};

// 16 hexadecimal digits that are the same for the same text, on every host and in every run.
std::string HashOf(absl::string_view text);

// Text of others as it may be shown to people: one line of printable ASCII, cut when it is long.
std::string Presentable(absl::string_view text);

}  // namespace lockstep::preempt

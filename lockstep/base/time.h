// Monotonic time as the machines see it: a point on a clock that only moves forward and that
// somebody else reads. Pure; the clock itself lives in lockstep/platform/runtime.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

#include "absl/time/time.h"

namespace lockstep {

// A point in monotonic time, in nanoseconds since an origin that has no meaning (boot, or the start
// of a simulation). Never compare it with wall time. Arithmetic saturates: `Infinite()` is later
// than everything and stays so.
class Time {
 public:
  constexpr Time() = default;
  static constexpr Time FromNanoseconds(int64_t ns) { return Time(ns); }  // since that origin
  // A deadline that never comes.
  static constexpr Time Infinite() { return Time(std::numeric_limits<int64_t>::max()); }

  // Since that origin; the largest int64 when infinite.
  constexpr int64_t nanoseconds() const { return ns_; }
  // No wait needs a timer for it.
  constexpr bool is_infinite() const { return *this == Infinite(); }

  friend constexpr auto operator<=>(Time, Time) = default;

  friend Time operator+(Time t, absl::Duration d) {
    if (t.is_infinite() || d == absl::InfiniteDuration()) return Infinite();
    return Time(absl::ToInt64Nanoseconds(absl::Nanoseconds(t.ns_) + d));
  }
  friend Time operator-(Time t, absl::Duration d) { return t + (-d); }
  friend absl::Duration operator-(Time a, Time b) {
    if (a.is_infinite()) return absl::InfiniteDuration();
    return absl::Nanoseconds(a.ns_) - absl::Nanoseconds(b.ns_);
  }

 private:
  explicit constexpr Time(int64_t ns) : ns_(ns) {}
  int64_t ns_ = 0;
};

}  // namespace lockstep

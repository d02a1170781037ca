// The only source of chance in a simulation. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/check.h"

namespace lockstep::sim {

// A stream of numbers that its seed alone decides, on every compiler and machine (which the
// standard library's distributions do not promise). Parts of a simulation take streams of their own
// (`Fork`), so that a change in one does not shift what the others draw.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  Random Fork() { return Random(Next()); }

  // Both ends included.
  int64_t Between(int64_t low, int64_t high) {
    LOCKSTEP_CHECK(low <= high);
    return low + static_cast<int64_t>(Next() % (static_cast<uint64_t>(high - low) + 1));
  }
  int32_t Index(size_t size) { return static_cast<int32_t>(Between(0, int64_t(size) - 1)); }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return absl::Nanoseconds(
        Between(absl::ToInt64Nanoseconds(low), absl::ToInt64Nanoseconds(high)));
  }

  bool Percent(int chance) { return Between(1, 100) <= chance; }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }

  template <class T>
  const T& Pick(const std::vector<T>& from) {
    return from[Index(from.size())];
  }

 private:
  uint64_t state_;
};

}  // namespace lockstep::sim

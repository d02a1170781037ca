// How the steps of a training loop come, as far as they were seen: their stride and their time.
// Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::client {

// Threads: thread-compatible. Bounds: none grows.
class StepPace {
 public:
  // The newest step, now and then; an older one is ignored.
  void Sample(Time now, int64_t step);

  // The common divisor of the differences between steps that were seen; 1 while these are few.
  int64_t stride() const;
  // Of one step; zero while it is not known.
  absl::Duration step_time() const { return step_time_; }

 private:
  struct Seen {
    int64_t step = 0;
    Time at;
  };
  std::optional<Seen> last_;
  int64_t divisor_ = 0;
  int differences_ = 0;
  absl::Duration step_time_;
};

}  // namespace lockstep::client

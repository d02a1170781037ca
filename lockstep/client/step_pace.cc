#include "lockstep/client/step_pace.h"

#include <numeric>

namespace lockstep::client {
namespace {

// Of so many differences between steps the common divisor is likely the stride. Before, 1 is as
// good where all poll alike: each comes by the same step next.
constexpr int kDifferencesToLearn = 8;

}  // namespace

void StepPace::Sample(Time now, int64_t step) {
  if (last_ && step <= last_->step) return;
  if (last_) {
    const int64_t steps = step - last_->step;
    divisor_ = std::gcd(divisor_, steps);
    ++differences_;
    const absl::Duration each = (now - last_->at) / steps;
    // The newest counts most, but not alone: one step may hold an evaluation.
    step_time_ = step_time_ == absl::ZeroDuration() ? each : step_time_ / 2 + each / 2;
  }
  last_ = {.step = step, .at = now};
}

int64_t StepPace::stride() const { return differences_ >= kDifferencesToLearn ? divisor_ : 1; }

}  // namespace lockstep::client

#include "lockstep/data/dispatch/workers_wanted.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lockstep/base/check.h"

namespace lockstep::dispatch {

namespace {

constexpr double kEstimateMax = 1e9;

template <class Map>
// One machine that is slow for the moment must not decide the estimate.
double SumWithoutOutliers(const Map& map) {
  // It divides by their number.
  LOCKSTEP_DCHECK(!map.empty());
  std::vector<double> values;
  double sum = 0;
  for (const auto& [id, value] : map) {
    values.push_back(value);
    sum += value;
  }
  const auto count = static_cast<double>(values.size());
  const double mean = sum / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / count);
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  const double median =
      sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  double result = 0;
  for (const double value : values) {
    // Two values are both a deviation from their mean, which rounding must not make more.
    result += std::abs(value - mean) > deviation * (1 + 1e-9) ? median : value;
  }
  return result;
}

}  // namespace

bool WorkersWanted::ReportWorker(WorkerId worker, absl::Duration element_time) {
  if (element_time <= absl::ZeroDuration()) return false;
  workers_[worker] = 1 / absl::ToDoubleSeconds(element_time);
  return true;
}

bool WorkersWanted::ReportConsumer(ConsumerId consumer, absl::Duration element_time) {
  if (element_time <= absl::ZeroDuration()) return false;
  consumers_[consumer] = 1 / absl::ToDoubleSeconds(element_time);
  return true;
}

std::optional<int64_t> WorkersWanted::Estimate() const {
  if (workers_.empty() || consumers_.empty()) return std::nullopt;
  const double made = SumWithoutOutliers(workers_) / static_cast<double>(workers_.size());
  const double taken = SumWithoutOutliers(consumers_);
  // What is whole but for the rounding of divisions is whole. Peers report the
  // times, and the ratio may not fit an integer.
  return static_cast<int64_t>(std::clamp(std::ceil(taken / made - 1e-9), 1.0, kEstimateMax));
}

int64_t BoundWorkersWanted(int64_t estimate, int64_t current) {
  constexpr int64_t kMost = 100'000;
  LOCKSTEP_DCHECK(estimate >= 1 && current >= 0);
  const int64_t now = std::max<int64_t>(1, current);
  // In steps: an estimate that is far off is corrected before much is started for it.
  return std::min({estimate, now * 4, now + 500, kMost});
}

}  // namespace lockstep::dispatch

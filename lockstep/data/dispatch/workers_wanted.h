// How many workers an iteration could use: from how long they take for an element, and how long its
// consumers do. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/time/time.h"
#include "lockstep/data/dispatch/ids.h"

namespace lockstep::dispatch {

// What the consumers take in a second, over what one worker makes in a second. A value that is more
// than a standard deviation from the others' mean counts as their median.
class WorkersWanted {
 public:
  // False, and nothing is noted: no time that anything can take.
  bool ReportWorker(WorkerId worker, absl::Duration element_time);
  // The time between two elements that it takes. False, and nothing is noted: as above.
  bool ReportConsumer(ConsumerId consumer, absl::Duration element_time);
  // False: it had not reported.
  bool ForgetWorker(WorkerId worker) { return workers_.erase(worker) > 0; }
  // False: it had not reported.
  bool ForgetConsumer(ConsumerId consumer) { return consumers_.erase(consumer) > 0; }

  // None while one of the sides has not reported.
  std::optional<int64_t> Estimate() const;

 private:
  std::map<WorkerId, double> workers_;  // elements in a second
  std::map<ConsumerId, double> consumers_;
};

// What is told to who starts workers: no more than four times as many as there are, or 500 more, or
// 100,000.
int64_t BoundWorkersWanted(int64_t estimate, int64_t current);

}  // namespace lockstep::dispatch

// The ids of the data service. Pure.
#pragma once

#include <cstdint>

#include "lockstep/base/ids.h"

namespace lockstep::dispatch {

// Counted by the dispatcher, from 1 above `Options::first_id` up; never reused.
using DatasetId = Id<struct DatasetIdTag, int64_t>;
using IterationId = Id<struct IterationIdTag, int64_t>;
using ConsumerId = Id<struct ConsumerIdTag, int64_t>;
using TaskId = Id<struct TaskIdTag, int64_t>;

// One life of a worker, or of a consumer: a random number that the process chose for itself.
using WorkerId = Id<struct WorkerIdTag, uint64_t>;
using ConsumerLife = Id<struct ConsumerLifeTag, uint64_t>;

// A run of segments that is read as one stream of elements, within its iteration.
using LaneId = Id<struct LaneIdTag, int64_t>;

// What is counted (rounds, grants, elements...) stays below it, so that sums do not overflow. From
// outside nothing beyond it is taken.
inline constexpr int64_t kNumberMax = int64_t{1} << 61;
// Whether a number from outside may be one, so that sums of a few do not overflow.
inline bool IsCount(int64_t number) { return number >= 0 && number < kNumberMax; }

}  // namespace lockstep::dispatch

// What the parts of one dispatcher share. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/deadlines.h"
#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/options.h"
#include "lockstep/data/dispatch/worker_table.h"

namespace lockstep::dispatch {

// Whose call is parked.
struct Parked {
  WorkerId worker;  // 0: a consumer's
  IterationId iteration;
  ConsumerId consumer;
};

// Who lists a dataset's files, and since when.
struct Resolving {
  WorkerId worker;
  Time since;
};

// Counts up. What a record names counts as used, so that a restored dispatcher goes on behind it.
class IdCounter {
 public:
  explicit IdCounter(int64_t last) : last_(last) {}
  int64_t Next() { return ++last_; }  // larger than all before
  // A record names it, so `Next` goes on behind it.
  void Note(int64_t id) { last_ = std::max(last_, id); }
  int64_t last() const { return last_; }  // the largest that was given or named

 private:
  int64_t last_;
};

// Of the dispatcher, for all its iterations. Owned by Dispatcher::Impl, which outlives them. Only
// the counter is recorded.
struct DispatcherState {
  explicit DispatcherState(const Options& all) : options(all), ids(all.first_id) {}

  const Options options;
  IdCounter ids;
  WorkerTable workers;
  Deadlines deadlines;
  absl::flat_hash_map<CallId, Parked> parked;  // looked up only
  std::map<DatasetId, Resolving> resolving;
  std::set<IterationId> touched;  // to be settled after the event
  int64_t file_skips_left = 0;    // while they are: steps that are left of the event's slice
};

}  // namespace lockstep::dispatch

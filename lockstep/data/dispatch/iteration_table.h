// The iterations that there are. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/data/dispatch/dispatcher_state.h"
#include "lockstep/data/dispatch/events.h"
#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/iteration.h"
#include "lockstep/data/dispatch/records.h"

namespace lockstep::dispatch {

// Owns the iterations, which are found by id, or by name and repetition. They come and go by
// records alone.
//
// Bounds: Options.iterations_max, by who commits.
class IterationTable {
 public:
  explicit IterationTable(DispatcherState& state) : state_(state) {}

  size_t size() const { return iterations_.size(); }  // those that are over as well
  // By id.
  const std::map<IterationId, std::unique_ptr<Iteration>>& all() const { return iterations_; }
  // Null: there is none, or it was collected.
  Iteration* Find(IterationId id) const;
  // The one that the request opens, if it is there. Without a name: the one that this process has
  // opened before, when it asks again since the answer was lost.
  Iteration* FindOpened(const OpenIteration& request) const;

  // Of iterations, those that are over as well: the dataset is kept for them.
  size_t CountOf(DatasetId dataset) const;
  // Whether an iteration waits for the dataset's files.
  bool AnyResolving(DatasetId dataset) const;

  // INVALID_ARGUMENT: its cursor cannot be read.
  absl::Status Apply(const record::IterationOpened& r);
  // INVALID_ARGUMENT: there is no such iteration.
  absl::Status Apply(const record::IterationCollected& r);

 private:
  DispatcherState& state_;
  std::map<IterationId, std::unique_ptr<Iteration>> iterations_;
  std::map<std::pair<std::string, int64_t>, IterationId> by_key_;
};

// What the names of iterations begin with that have none of their own.
inline constexpr char kAnonymous[] = "anonymous-";

}  // namespace lockstep::dispatch

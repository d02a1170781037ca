// Runs one segment of a dataset, from its positions to its elements.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "lockstep/data/engine/dataset.h"
#include "lockstep/data/engine/element.h"

namespace lockstep::engine {

namespace internal {
struct RunState;
}

// The elements of a segment in order: a pure function of (definition, manifest, segment), the same
// wherever and whenever it runs. Threads: thread-compatible; `Next` reads files, and waits for
// Python functions. Memory: that of one element, or of some hundred rows where there are maps.
class SegmentRun {
 public:
  // `frames`: for the elements' frames; none: as DatasetOptions says. `stop`: when it becomes true
  // `Next` ends soon, with CANCELLED; outlives the run. OUT_OF_RANGE: there is no such segment.
  static absl::StatusOr<std::unique_ptr<SegmentRun>> Start(std::shared_ptr<const Dataset> dataset,
                                                           int64_t segment,
                                                           Allocator frames = nullptr,
                                                           const std::atomic<bool>* stop = nullptr);
  ~SegmentRun();

  // Nullopt: the end. After an error always that error. Reasons: kSourceMissing, kSourceChanged,
  // kPathRefused, kRecordPoisoned, kFunctionFailed; the message names file, position and record.
  absl::StatusOr<std::optional<Element>> Next();

  // Elements left out so far, by `on_error` "skip".
  int64_t skipped() const;

 private:
  explicit SegmentRun(std::unique_ptr<internal::RunState> state);
  absl::Status Refill();

  const std::unique_ptr<internal::RunState> state_;
};

}  // namespace lockstep::engine

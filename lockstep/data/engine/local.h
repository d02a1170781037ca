// All elements of a dataset in this process, in their exact order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "lockstep/data/engine/dataset.h"
#include "lockstep/data/engine/element.h"
#include "lockstep/data/engine/segment_run.h"

namespace lockstep::engine {

// Segment after segment. The stream that `order="exact"` yields through the service is the same,
// byte for byte. Threads: thread-compatible.
class LocalIteration {
 public:
  // From element `from` of segment `segment` on.
  explicit LocalIteration(std::shared_ptr<const Dataset> dataset, int64_t segment = 0,
                          int64_t from = 0);

  // Nullopt: the end. After an error always that error.
  absl::StatusOr<std::optional<Element>> Next();

  // Where the next element stands.
  int64_t segment() const { return segment_; }
  int64_t index() const { return index_; }  // within its segment

 private:
  const std::shared_ptr<const Dataset> dataset_;
  int64_t segment_;
  int64_t index_ = 0;
  int64_t skip_;
  std::unique_ptr<SegmentRun> run_;
  absl::Status failed_;
};

}  // namespace lockstep::engine

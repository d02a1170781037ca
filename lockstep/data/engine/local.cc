#include "lockstep/data/engine/local.h"

#include <utility>

namespace lockstep::engine {

LocalIteration::LocalIteration(std::shared_ptr<const Dataset> dataset, int64_t segment,
                               int64_t from)
    : dataset_(std::move(dataset)), segment_(segment), index_(from), skip_(from) {}

absl::StatusOr<std::optional<Element>> LocalIteration::Next() {
  while (failed_.ok()) {
    if (run_ == nullptr) {
      if (dataset_->plan().positions_of(segment_) == 0) return std::optional<Element>();
      auto run = SegmentRun::Start(dataset_, segment_);
      if (!run.ok()) {
        failed_ = run.status();
        break;
      }
      run_ = *std::move(run);
      index_ = 0;
    }
    auto element = run_->Next();
    if (!element.ok()) {
      failed_ = element.status();
      break;
    }
    if (!element->has_value()) {
      run_ = nullptr;
      ++segment_;
      index_ = 0;
      skip_ = 0;
      continue;
    }
    ++index_;
    if (skip_ == 0) return element;
    --skip_;
  }
  return failed_;
}

}  // namespace lockstep::engine

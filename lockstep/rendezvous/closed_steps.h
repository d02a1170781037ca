// Which steps are over. Pure.
#pragma once

#include <cstddef>

#include "absl/container/btree_set.h"
#include "lockstep/rendezvous/messages.h"

namespace lockstep::rendezvous {

// A set of steps that only grows, in bounded memory: those known one by one lie above a mark, and
// everything below the mark counts as closed. Steps that are closed in order take no memory.
//
// Threads: thread-compatible. Bounds: `max` steps; then the mark rises above the lowest.
class ClosedSteps {
 public:
  explicit ClosedSteps(size_t max) : max_(max) {}

  void Add(StepId step) {
    if (Contains(step)) return;
    above_.insert(step);
    while (!above_.empty() && (above_.begin()->value() == mark_.value() || above_.size() > max_)) {
      mark_ = StepId(above_.begin()->value() + 1);
      above_.erase(above_.begin());
    }
  }
  bool Contains(StepId step) const { return step < mark_ || above_.contains(step); }
  StepId mark() const { return mark_; }
  size_t size() const { return above_.size(); }

 private:
  const size_t max_;
  StepId mark_;
  absl::btree_set<StepId> above_;
};

}  // namespace lockstep::rendezvous

// What the dispatcher has assigned to a consumer, as of its newest answer. Pure.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/data/dispatch/effects.h"

namespace lockstep::dispatch {

// Two polls may be on their way, and a dispatcher that restarts counts versions anew: so an answer
// may be older than one that is known.
class CurrentAssignment {
 public:
  // False: a newer answer has overtaken it, and it changes nothing.
  bool Take(RequestId request, Assignment assignment) {
    if (assignment_) {
      if (assignment.service == assignment_->service) {
        if (assignment.version < assignment_->version) return false;
      } else if (request < newest_answered_) {
        return false;
      }
    }
    newest_answered_ = std::max(newest_answered_, request);
    assignment_ = std::move(assignment);
    return true;
  }

  explicit operator bool() const { return assignment_.has_value(); }
  const Assignment& operator*() const { return *assignment_; }
  const Assignment* operator->() const { return &*assignment_; }
  bool IsIn(Phase phase) const { return assignment_ && assignment_->phase == phase; }

 private:
  std::optional<Assignment> assignment_;
  RequestId newest_answered_;
};

}  // namespace lockstep::dispatch

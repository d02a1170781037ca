// The steps that a member knows of: which can be used, which failed, and when one is forgotten.
// Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/node_hash_map.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/rendezvous/closed_steps.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/options.h"
#include "lockstep/rendezvous/step_outbox.h"
#include "lockstep/rendezvous/step_table.h"

namespace lockstep::rendezvous {

struct Step {
  enum class Phase {
    kUnopened,  // another member has begun it
    kOpen,
    kClosed,  // here; others may still receive from it
  };

  StepId id;
  Phase phase = Phase::kUnopened;
  ErrorPtr aborted;  // null: it has not failed
  Time expires = Time::Infinite();
  StepTable inbox;
  StepOutbox outbox;
  size_t lent = 0;                         // values that others may look at
  absl::btree_set<OpId> fetching;          // receives whose bytes are on their way
  absl::btree_set<MemberIndex> peers;      // with whom something of it was exchanged
  absl::btree_set<MemberIndex> closed_by;  // they receive nothing of it any more
};

//   unknown --Touch--> unopened --Open--> open --Close--> closed --nothing is left--> forgotten
//      '------------------Open-----------------^             '---closed_ttl: the rest is dropped
//
// An unopened step is forgotten after `unopened_ttl`. A step that is forgotten after it was closed
// is known as closed, and its abort is kept for members that come late.
//
// Threads: thread-compatible. Bounds: `unopened_steps_max`, `closed_steps_max`, `kept_aborts_max`;
// the program bounds how many are open. References stay valid until the step is forgotten.
class Steps {
 public:
  explicit Steps(const Options& options) : options_(options), closed_(options.closed_steps_max) {}

  // Null: it is unknown or forgotten.
  Step* Find(StepId id);
  const Step* Find(StepId id) const;

  // Null: values can be sent and received in it. Otherwise the error it was aborted with, or that
  // with which everything ended; FAILED_PRECONDITION: `step_closed`, `step_not_opened`.
  ErrorPtr CheckUsable(StepId id) const;
  // Null: what arrives for its receives still completes them.
  ErrorPtr WhyOver(const Step& step) const;
  bool WasClosed(StepId id) const { return closed_.Contains(id); }

  // Null: it is open now, or was before. INVALID_ARGUMENT; FAILED_PRECONDITION: `step_closed`; or
  // the error with which everything ended.
  ErrorPtr Open(StepId id);
  // Of an open step.
  void Close(Time now, Step& step);
  // For a message of another member's. Null: the step is closed, or there are too many unopened.
  Step* Touch(Time now, StepId id, MemberIndex by);
  // Nothing can be used any more, with this error.
  void End(ErrorPtr why);
  const ErrorPtr& ended() const { return ended_; }

  // Of an aborted step: its abort as other members hear of it, with the member it began at.
  ErrorPtr EchoOfAbort(const Step& step) const;
  // For a member that may not know. Null: it was not aborted, or that is forgotten.
  ErrorPtr AbortFor(StepId id) const;

  // The next step whose time has passed, each once; null: none.
  Step* TakeExpired(Time now);
  Time NextExpiry() const {
    return expiries_.empty() ? Time::Infinite() : expiries_.begin()->first;
  }
  // Of one that nobody opened in time.
  void ForgetUnopened(Step& step);
  // Does so when it is closed, and nothing of it is held, lent or fetched.
  void ForgetIfDone(StepId id);

  std::vector<StepId> Ids() const;  // in their order
  // Calls `see(step)` for each, in no order.
  template <class See>
  void ForEach(const See& see) const {
    for (const auto& [id, step] : steps_) see(step);
  }
  size_t size() const { return steps_.size(); }

 private:
  void SetExpiry(Step& step, Time at);

  const Options& options_;
  ErrorPtr ended_;
  absl::node_hash_map<StepId, Step> steps_;  // never iterated for effects, but sorted
  ClosedSteps closed_;
  absl::btree_map<StepId, ErrorPtr> kept_aborts_;  // of closed steps, as others hear of them
  size_t unopened_ = 0;
  absl::btree_set<std::pair<Time, StepId>> expiries_;
};

}  // namespace lockstep::rendezvous

// The calls of the program's that are answered later. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/node_hash_map.h"
#include "lockstep/base/time.h"
#include "lockstep/rendezvous/effects.h"
#include "lockstep/rendezvous/error.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/step_table.h"

namespace lockstep::rendezvous {

// A receive whose value has not come.
struct Unmatched {
  std::optional<uint64_t> into_bytes;
};
// A receive whose value's bytes are being fetched.
struct Fetching {
  Arrived arrived;
  ErrorPtr ends_with;  // the program does not wait for it any more: what it is completed with
};
// A send that is completed when a receive took the value.
struct Unacknowledged {};
// A send that waits for room in the quota.
struct WithoutRoom {
  Post post;
  uint64_t order = 0;  // among those who wait for room
};

struct Operation {
  OpId id;
  std::variant<Unmatched, Fetching, Unacknowledged, WithoutRoom> state;
  StepId step;
  KeyId key;
  Time since;
  Time deadline = Time::Infinite();
};

// Each operation is in here from its call until it is completed, and completed here only, so that
// it is completed exactly once. Also says when one is overdue, and when a receive has waited so
// long that its sender is to hear of it.
//
// Threads: thread-compatible. Bounds: those of whoever adds (`waits` counts for `waits_max`); one
// due want for each receive. References stay valid until the operation is completed.
class Operations {
 public:
  Operation& Add(Operation&& added);
  // Null: it was completed.
  Operation* Find(OpId id);
  const Operation* Find(OpId id) const;
  // Of one that is known not to be completed.
  Operation& At(OpId id) { return *Find(id); }
  std::vector<OpId> Ids() const;  // in their order

  // These complete the operation; `op` is gone after it.
  void Complete(Operation& op, Completed&& completed, Effects& out);
  void Fail(Operation& op, const ErrorPtr& error, Effects& out);
  // The end of a send that waits for its receiver; null: received. Nothing, if it was completed.
  void Acknowledge(OpId id, const ErrorPtr& error, Effects& out);

  // The receive is wanted of its sender at that time, if it waits still. Times go up.
  void WantAt(Time due, OpId id) { wants_due_.emplace_back(due, id); }
  void ForgetWants() { wants_due_.clear(); }
  // The next receive that is to be wanted now, or null.
  Operation* TakeDueWant(Time now);
  // The next operation whose deadline has passed, or null; each once.
  Operation* TakeOverdue(Time now);
  Time NextDeadline() const;

  size_t size() const { return ops_.size(); }
  // All but those that wait only for an acknowledgement.
  size_t waits() const { return waits_; }

 private:
  void Erase(Operation& op);

  absl::node_hash_map<OpId, Operation> ops_;
  absl::btree_set<std::pair<Time, OpId>> deadlines_;
  std::deque<std::pair<Time, OpId>> wants_due_;  // may name what is completed already
  size_t waits_ = 0;
};

}  // namespace lockstep::rendezvous

// The dispatcher: the machine that shares datasets out to workers and consumers. Pure.
//
// Fed by lockstep/server (which owns the loop, the clock and the links) or by lockstep/sim.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/data/dispatch/events.h"
#include "lockstep/data/dispatch/options.h"
#include "lockstep/data/dispatch/records.h"
#include "lockstep/data/dispatch/view.h"

namespace lockstep::dispatch {

// Decides who reads what from whom. It never sees an element: workers make them, and consumers ask
// workers for them.
//
// Since what a segment gives depends on nothing but the dataset and the segment, a worker holds no
// promise: the one that a grant names may change at any time. What is promised, is promised to
// consumers, and is in the records.
//
// Invariants: (1) every request is answered exactly once, or its caller left; (2) the same events
// at the same times give the same effects; (3) a segment of a pool is in it, or in one grant, or
// done, or (at most once) dropped; (4) the records of all effects so far, or those of a snapshot
// and of the effects since, give a machine that answers as this one, but for what was parked.
//
// Threads: thread-compatible; one loop owns it. Time: `now` must not go back between calls.
// Bounds: Options.
class Dispatcher {
 public:
  explicit Dispatcher(Options options);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // What is to be done is added to `out`.
  void Handle(Time now, Event event, Effects& out);

  // When to call `Handle(now, DeadlineReached{})`; infinite when nothing is pending. May be early.
  Time NextDeadline() const;

  // All rows at once, in time that grows with them: for tests and small services.
  View GetView(Time now) const;
  // Adds the next rows of a view, as many as a small part of a millisecond allows, but at least
  // one; returns whether there are more. The totals are added with the last.
  bool ReadView(Time now, ViewCursor& cursor, View& out) const;
  // The processes of all consumers that are there: takes time for each of them.
  std::vector<ConsumerProcess> Processes() const;
  // The process of one consumer, if it is there.
  std::optional<ConsumerProcess> ProcessOf(IterationId iteration, ConsumerId consumer) const;

  // Restores what was recorded: `Snapshot` records first, then those of later effects, in order;
  // then `Handle(now, Restored{})`. Only before the first `Handle`.
  // INVALID_ARGUMENT: this record cannot follow those before it; the state is of no use then.
  absl::Status Apply(Time at, const Record& record);
  // The same, where one iteration must not stop all others: what a record that does not fit is of
  // fails (`iteration_set_aside`), which becomes a record and an event with `Restored`. `unfit`:
  // why it does not, where that is known already; then only of what it is counts.
  void Restore(Time at, const Record& record, const absl::Status& unfit = absl::OkStatus());

  // The records from which `Apply` makes this state, in a dispatcher with the same options.
  std::vector<TimedRecord> Snapshot() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::dispatch

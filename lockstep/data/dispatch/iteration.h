// One iteration: who reads it, and which of its segments are whose. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/consumer_roster.h"
#include "lockstep/data/dispatch/consumer_sessions.h"
#include "lockstep/data/dispatch/dispatcher_state.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/data/dispatch/events.h"
#include "lockstep/data/dispatch/iteration_ledger.h"
#include "lockstep/data/dispatch/reading_mode.h"
#include "lockstep/data/dispatch/records.h"
#include "lockstep/data/dispatch/view.h"
#include "lockstep/data/dispatch/worker_choice.h"

namespace lockstep::dispatch {

// Takes what happens to one iteration to the parts of it that it owns:
//
//   IterationLedger   all that is recorded; changes by records only
//   ConsumerSessions  who is connected: leases, parked polls, how far each has come
//   WorkerChoice      who makes what
//   ReadingMode       the policy: first come, exact order, or rounds
//   ConsumerRoster    consumers that come, go, are lost and come back
//
// Every event that touches an iteration is followed by `Settle`, which gives what is to be given,
// finds out whether all was read, and answers the polls that have something new.
//
// Owned by the Dispatcher. Bounds: those of the parts.
class Iteration {
 public:
  // `start`: what `spec.cursor` decodes to. Begins with `Start`, or with the record of it.
  Iteration(DispatcherState& state, IterationId id, IterationSpec spec, Cursor start);

  const IterationLedger& ledger() const { return ledger_; }     // what of it is recorded
  const IterationSpec& spec() const { return ledger_.spec(); }  // as it was opened; never changes
  Phase phase() const { return ledger_.phase(); }  // only `Start`, `End` and records change it

  // --- Requests ---
  void Handle(Time now, const OpenIteration& request, Effects& out);
  // A report, then a wait: the call is answered when there is something new. NOT_FOUND
  // `unknown_consumer`; ABORTED `consumer_replaced` or `consumer_lease_ended`: another process
  // reads
  // under the consumer, or waits to.
  void Handle(Time now, const ConsumerPoll& request, Effects& out);
  // Succeeds always: one that is gone has left, too.
  void Handle(Time now, const CloseConsumer& request, Effects& out);

  // --- Facts ---
  // Its dataset is known.
  void Start(Time now, std::shared_ptr<const Shape> shape, Effects& out);
  // `error` null: all was read.
  void End(Time now, ErrorPtr error, Effects& out);
  // All of it is given up: who waits is told.
  void Abandon(const ErrorPtr& why, Effects& out);
  // It has a task from here on, if the iteration is read.
  void WorkerCame(const Worker& worker, Effects& out);
  // What it was to make others make.
  void WorkerGone(WorkerId worker);
  // The parked call of this consumer is not answered any more.
  void CallLeft(ConsumerId consumer);
  // It is quiet from now on, unless a poll of it waits.
  void ConsumerLinkEnded(Time now, ConsumerId consumer);
  // Of another life of the consumer: ignored. Else it is lost at once, and its place waits or goes.
  void ConsumerEnded(Time now, ConsumerId consumer, ConsumerLife life, Effects& out);
  // Of one of its consumers, which may have gone meanwhile.
  void ReachDue(Time now, const Due& due, Effects& out);
  // After the last record of a former life: leases count from now.
  void Restored(Time now);
  // After every event that touched it.
  void Settle(Time now, Effects& out);

  // Which tasks the worker has here.
  void ListTasks(WorkerId worker, std::vector<WorkerTask>& out) const;
  // For people and metrics.
  IterationRow Row(Time now) const;
  // For the dispatcher's invariants: calls that are parked, and grants that a worker is chosen for.
  struct Counts {
    size_t parked = 0;
    int64_t chosen = 0;
  };
  // See Counts.
  Counts Count() const {
    return {.parked = sessions_.CountParked(), .chosen = choice_.CountChosen()};
  }

  // --- Records of a former life ---
  // IterationStarted: with what the dataset is. INVALID_ARGUMENT: it has begun already.
  absl::Status Apply(std::shared_ptr<const Shape> shape) { return ledger_.Start(std::move(shape)); }
  // INVALID_ARGUMENT: the record does not fit what is there.
  absl::Status Apply(const Record& record) { return ledger_.Apply(record); }

 private:
  void TakeReports(Time now, const ConsumerPoll& request, ConsumerSession& session, Effects& out);
  void TakeFailure(Time now, const SegmentFailure& failure, Effects& out);
  void Reopen(Effects& out);
  void AnswerParked(Time now, ConsumerSession& session, Effects& out);
  Assignment AssignmentFor(Time now, const ConsumerSession& session);
  bool Holds() const;

  DispatcherState& state_;
  IterationLedger ledger_;
  ConsumerSessions sessions_;
  WorkerChoice choice_;
  const IterationParts parts_;
  const std::unique_ptr<ReadingMode> mode_;
  ConsumerRoster roster_;
};

}  // namespace lockstep::dispatch

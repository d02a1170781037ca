// The inside of Dispatcher. Pure.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/data/dispatch/dataset_table.h"
#include "lockstep/data/dispatch/dispatcher.h"
#include "lockstep/data/dispatch/dispatcher_view.h"
#include "lockstep/data/dispatch/file_listing.h"
#include "lockstep/data/dispatch/iteration_table.h"
#include "lockstep/data/dispatch/request_checks.h"

namespace lockstep::dispatch {

// Takes each event to the parts that it owns, lets fall due what is due, and then settles the
// iterations that were touched:
//
//   DispatcherState  what iterations share: options, ids, workers, deadlines, parked calls
//   DatasetTable     the datasets, by id and name; recorded
//   IterationTable   the iterations, by id and name; each with its own ledger
//   FileListing      who lists the files of which dataset
//
// Four files: dispatcher.cc (facts, records), dispatcher_datasets.cc, dispatcher_iterations.cc and
// dispatcher_workers.cc (requests).
class Dispatcher::Impl {
 public:
  explicit Impl(const Options& options) : state_(options) {}

  // The event, then what fell due, then the answers.
  void Handle(Time now, Event event, Effects& out) {
    std::visit([&](auto& what) { On(now, what, out); }, event);
    ReachDeadlines(now, out);
    // Last, so that a poll is answered with all that this event and what fell due changed.
    Settle(now, out);
    LOCKSTEP_DCHECK(Holds());
  }
  Time NextDeadline() const { return state_.deadlines.Next(); }  // infinite: nothing is due
  // As Dispatcher::ReadView.
  bool ReadView(Time now, ViewCursor& cursor, View& out) const {
    return ReadRows(state_, datasets_, iterations_, now, cursor, out);
  }
  // As Dispatcher::Processes.
  std::vector<ConsumerProcess> Processes() const;
  // Nullopt: no such iteration, or the consumer is away or gone.
  std::optional<ConsumerProcess> ProcessOf(IterationId iteration, ConsumerId consumer) const;
  // INVALID_ARGUMENT: of an iteration or dataset that is not there, or it does not fit what is.
  absl::Status Apply(Time at, const Record& record);
  // A record of a former life. One that does not fit fails the iteration that it is of, and nothing
  // else.
  void Restore(Time at, const Record& record, const absl::Status& unfit);
  // The counter first, then datasets, then the iterations that are made of them.
  std::vector<TimedRecord> Snapshot() const;

 private:
  void On(Time now, const RegisterDataset& request, Effects& out);
  void On(Time now, const GetDataset& request, Effects& out);
  void On(Time now, const OpenIteration& request, Effects& out);
  void On(Time now, const ConsumerPoll& request, Effects& out);
  void On(Time now, const CloseConsumer& request, Effects& out);
  void On(Time now, const WorkerPoll& request, Effects& out);
  void On(Time now, const CallLeft& fact, Effects& out);
  void On(Time now, const WorkerLinkEnded& fact, Effects& out);
  void On(Time now, const ConsumerLinkEnded& fact, Effects& out);
  void On(Time now, const ConsumerEnded& fact, Effects& out);
  void On(Time /*now*/, const DeadlineReached& /*fact*/, Effects& /*out*/) {}
  void On(Time now, const Restored& fact, Effects& out);
  void On(Time now, const Stop& fact, Effects& out);

  void ReachDeadlines(Time now, Effects& out);
  void Settle(Time now, Effects& out);

  // Datasets.
  void SetDatasetIdle(Time now, DatasetId id);
  void StartIterations(Time now, DatasetId id, Effects& out);
  void FailIterations(Time now, DatasetId id, const ErrorPtr& error, Effects& out);
  bool NeedsResolving(DatasetId id) const;
  void ResolveIsLate(Time now, DatasetId id, Effects& out);
  void TakeResolved(Time now, WorkerId worker, const ResolveReport& report, Effects& out);

  // Iterations.
  void Collect(Time now, IterationId id, Effects& out);

  // Workers.
  void SetGrace(Time now, const Worker& worker);
  void AnswerWorker(Time now, Worker& worker, Effects& out);
  void LoseWorker(Time now, WorkerId id, const std::string& why, Effects& out);

  // Records.
  absl::Status ApplyToIteration(IterationId id, const Record& any);
  // What is not recorded follows the datasets.
  void NoteApplied(const record::DatasetResolved& r) { listing_.Forget(r.dataset); }
  void NoteApplied(const record::DatasetForgotten& r) {
    listing_.Forget(r.dataset);
    for (auto& [id, worker] : state_.workers.all()) worker.times.erase(r.dataset);
  }
  template <class R>
  void NoteApplied(const R& /*r*/) {}

  template <class R>
  void Commit(Time now, R record, Effects& out) {
    const Record kept = std::move(record);
    LOCKSTEP_CHECK(Apply(now, kept).ok());
    out.records.push_back(kept);
  }

  bool Holds() const;  // the invariants

  DispatcherState state_;
  DatasetTable datasets_{state_.options, state_.ids};
  IterationTable iterations_{state_};
  FileListing listing_{state_};
  bool stopped_ = false;
  // Of records that did not fit, until `Restored`.
  std::vector<std::string> misfits_;
  std::vector<Record> set_aside_;
};

}  // namespace lockstep::dispatch

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
#include "lockstep/dispatch/dispatcher.h"
#include "lockstep/dispatch/iteration.h"

namespace lockstep::dispatch {

struct Dataset {
  DatasetId id;
  std::string name;
  std::string identity;
  std::string definition;
  std::string element_spec;
  bool needs_manifest = false;
  bool resolved = false;
  bool retired = false;
  std::string manifest;
  std::shared_ptr<const Shape> shape;  // not recorded
  std::map<WorkerId, int32_t> resolve_tries;
  // Who was asked to list its files, and when first; who of them took too long. Who is asked at the
  // moment: DispatcherState::resolving.
  std::map<WorkerId, Time> resolve_asked;
  std::set<WorkerId> resolve_late;

  bool ready() const { return resolved || !needs_manifest; }
};

inline ErrorPtr InvalidRequest(std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                   std::move(message));
}

inline ErrorPtr LimitReached(std::string message) {
  return MakeError(absl::StatusCode::kResourceExhausted, reason::kLimitReached, std::move(message));
}

// Five files: dispatcher.cc (events, records), dispatcher_datasets.cc, dispatcher_iterations.cc,
// dispatcher_workers.cc and dispatcher_view.cc.
class Dispatcher::Impl {
 public:
  explicit Impl(const Options& options) : state_(options) {}

  void Handle(Time now, Event event, Effects& out) {
    std::visit([&](auto& what) { On(now, what, out); }, event);
    ReachDeadlines(now, out);
    Settle(now, out);
  }
  Time NextDeadline() const { return state_.deadlines.Next(); }
  View GetView(Time now) const;
  bool ReadView(Time now, ViewCursor& cursor, View& out) const;
  std::vector<ConsumerProcess> Processes() const;
  std::optional<ConsumerProcess> ProcessOf(IterationId iteration, ConsumerId consumer) const;
  absl::Status Apply(Time at, const Record& record);
  // A record of a former life. One that does not fit fails the iteration that it is of, and nothing
  // else.
  void Restore(Time at, const Record& record, const absl::Status& unfit);
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

  DatasetRow RowOf(const Dataset& dataset, size_t iterations) const;
  IterationRow RowOf(Time now, const Iteration& iteration) const;
  WorkerRow RowOf(Time now, const Worker& worker, size_t tasks) const;

  void ReachDeadlines(Time now, Effects& out);
  void Settle(Time now, Effects& out);

  // Datasets.
  Dataset* FindDataset(DatasetId id);
  const Dataset* FindDataset(DatasetId id) const;
  size_t IterationsOf(DatasetId id) const;
  void SetDatasetIdle(Time now, DatasetId id);
  // The plan; null and why.
  std::shared_ptr<const Shape> ShapeOf(Dataset& dataset, ErrorPtr& why);
  void StartIterations(Time now, Dataset& dataset, Effects& out);
  void FailIterations(Time now, DatasetId id, const ErrorPtr& error, Effects& out);
  bool NeedsResolving(const Dataset& dataset) const;
  WorkerId Resolver(const Dataset& dataset) const;
  void AskToResolve(Time now, Dataset& dataset, WorkerId worker);
  void ResolveIsLate(Time now, DatasetId id, Effects& out);
  void ForgetResolver(Dataset& dataset, WorkerId worker);
  void ForgetResolving(Dataset& dataset);
  void TakeResolved(Time now, WorkerId worker, const ResolveReport& report, Effects& out);

  // Iterations.
  Iteration* FindIteration(IterationId id);
  ErrorPtr CheckSpec(const IterationSpec& spec, const Dataset*& dataset, Cursor& start) const;
  ErrorPtr CheckSame(const Iteration& iteration, const IterationSpec& spec,
                     const Cursor& start) const;
  static ErrorPtr UnknownIteration(IterationId id);
  void Collect(Time now, IterationId id, Effects& out);

  // Workers.
  void SetGrace(Time now, const Worker& worker);
  void AnswerWorker(Time now, Worker& worker, Effects& out);
  void LoseWorker(Time now, WorkerId id, const std::string& why, Effects& out);

  // Records.
  absl::Status ApplyDataset(const record::DatasetRegistered& r);
  absl::Status ApplyDataset(const record::DatasetResolved& r);
  absl::Status ApplyDataset(const record::DatasetRetired& r);
  absl::Status ApplyDataset(const record::DatasetForgotten& r);
  absl::Status ApplyOpened(const record::IterationOpened& r);
  absl::Status ApplyToIteration(IterationId id, const Record& any);
  // It is not found by its name any more.
  void Unlist(const Dataset& dataset);

  template <class R>
  void Commit(Time now, R record, Effects& out) {
    const Record kept = std::move(record);
    LOCKSTEP_CHECK(Apply(now, kept).ok());
    out.records.push_back(kept);
  }

  DispatcherState state_;
  std::map<DatasetId, Dataset> datasets_;
  std::map<std::string, DatasetId> by_name_;
  std::map<std::string, DatasetId> by_identity_;  // of those without a name of their own
  std::map<IterationId, std::unique_ptr<Iteration>> iterations_;
  std::map<std::pair<std::string, int64_t>, IterationId> by_key_;
  bool stopped_ = false;
  // Of records that did not fit, until `Restored`.
  std::vector<std::string> misfits_;
  std::vector<Record> set_aside_;
};

}  // namespace lockstep::dispatch

#include "lockstep/data/dispatch/dispatcher.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/check.h"
#include "lockstep/data/dispatch/dispatcher_impl.h"
#include "lockstep/data/dispatch/failure_kind.h"
#include "lockstep/data/dispatch/iteration_view.h"

namespace lockstep::dispatch {
namespace {

// Of a former life's records, how many are named.
constexpr size_t kMisfitsToldMax = 10;

}  // namespace

// --- Facts ---

void Dispatcher::Impl::On(Time now, const CallLeft& fact, Effects& /*out*/) {
  const auto found = state_.parked.find(fact.call);
  if (found == state_.parked.end()) return;
  const Parked parked = found->second;
  // Erased here: the owner's `ForgetCall` leaves the entry to its caller.
  state_.parked.erase(found);
  if (parked.worker != WorkerId()) {
    if (Worker* worker = state_.workers.Find(parked.worker); worker != nullptr) {
      LOCKSTEP_DCHECK(worker->parked == fact.call);
      worker->parked.reset();
      state_.deadlines.Clear({.kind = DueKind::kWorkerPark, .worker = parked.worker});
      // Nothing connects it now: neither a link nor a poll.
      if (worker->link_ended) SetGrace(now, *worker);
    }
  } else if (Iteration* iteration = iterations_.Find(parked.iteration); iteration != nullptr) {
    iteration->CallLeft(parked.consumer);
  }
}

void Dispatcher::Impl::SetGrace(Time now, const Worker& worker) {
  // No later than its time-out: a link that ends does not make the worker live longer.
  state_.deadlines.Set(
      {.kind = DueKind::kWorkerLost, .worker = worker.id},
      std::min(now + state_.options.worker_grace, worker.heard + state_.options.worker_timeout));
}

void Dispatcher::Impl::On(Time now, const WorkerLinkEnded& fact, Effects& /*out*/) {
  Worker* worker = state_.workers.Find(fact.worker);
  if (worker == nullptr) return;
  worker->link_ended = true;
  // A poll that is parked came over another link, or its `CallLeft` comes.
  if (!worker->parked) SetGrace(now, *worker);
}

void Dispatcher::Impl::On(Time now, const ConsumerLinkEnded& fact, Effects& /*out*/) {
  if (Iteration* iteration = iterations_.Find(fact.iteration); iteration != nullptr) {
    iteration->ConsumerLinkEnded(now, fact.consumer);
  }
}

void Dispatcher::Impl::On(Time now, const ConsumerEnded& fact, Effects& out) {
  if (Iteration* iteration = iterations_.Find(fact.iteration); iteration != nullptr) {
    iteration->ConsumerEnded(now, fact.consumer, fact.life, out);
  }
}

void Dispatcher::Impl::On(Time now, const Restored& /*fact*/, Effects& out) {
  // Calls and workers belong to the life that begins here.
  LOCKSTEP_DCHECK(state_.parked.empty() && state_.workers.empty());
  // First what did not fit: its records close those iterations before anybody is answered.
  for (std::string& text : std::exchange(misfits_, {})) {
    out.Tell(Severity::kError, std::move(text));
  }
  for (Record& record : std::exchange(set_aside_, {})) out.records.push_back(std::move(record));
  for (const auto& [id, iteration] : iterations_.all()) {
    // Before any of them starts: leases and choices are there when grants are given.
    iteration->Restored(now);
    state_.touched.insert(id);
  }
  for (const auto& [id, dataset] : datasets_.all()) {
    SetDatasetIdle(now, id);
    // The crash came between the two records.
    StartIterations(now, id, out);
  }
}

void Dispatcher::Impl::On(Time /*now*/, const Stop& /*fact*/, Effects& out) {
  // Nothing is opened any more; polls are answered, so that nobody waits for the end of the link.
  stopped_ = true;
  const ErrorPtr why =
      MakeError(absl::StatusCode::kUnavailable, reason::kStopped, "the data service is stopping");
  for (const auto& [id, iteration] : iterations_.all()) iteration->Abandon(why, out);
  for (auto& [id, worker] : state_.workers.all()) {
    if (!worker.parked) continue;
    state_.parked.erase(*worker.parked);
    out.Fail(*worker.parked, why);
    worker.parked.reset();
  }
}

void Dispatcher::Impl::ReachDeadlines(Time now, Effects& out) {
  // One at a time: what is due may set or clear the time of another.
  while (const std::optional<Due> due = state_.deadlines.Pop(now)) {
    switch (due->kind) {
      case DueKind::kWorkerLost:
        LoseWorker(now, due->worker, "nothing was heard of it", out);
        break;
      case DueKind::kWorkerPark:
        if (Worker* worker = state_.workers.Find(due->worker);
            worker != nullptr && worker->parked) {
          AnswerWorker(now, *worker, out);
        }
        break;
      case DueKind::kIterationIdle:
        Collect(now, due->iteration, out);
        break;
      case DueKind::kDatasetIdle:
        // A damaged journal may have an iteration without its dataset.
        if (datasets_.Find(due->dataset) != nullptr && iterations_.CountOf(due->dataset) == 0) {
          Commit(now, record::DatasetForgotten{.dataset = due->dataset}, out);
        }
        break;
      case DueKind::kDatasetResolve:
        ResolveIsLate(now, due->dataset, out);
        break;
      // All others are of a consumer.
      default:
        if (Iteration* iteration = iterations_.Find(due->iteration); iteration != nullptr) {
          iteration->ReachDue(now, *due, out);
        }
    }
  }
}

void Dispatcher::Impl::Settle(Time now, Effects& out) {
  // For all iterations together: thousands may look for something, as after a restart.
  state_.file_skips_left = state_.options.file_skips_slice_max;
  while (!state_.touched.empty()) {
    // By id, so that the same events give their effects in the same order.
    const IterationId id = *state_.touched.begin();
    state_.touched.erase(state_.touched.begin());
    Iteration* iteration = iterations_.Find(id);
    if (iteration == nullptr) continue;
    iteration->Settle(now, out);
    // What it touched itself is settled.
    state_.touched.erase(id);
    if (iteration->phase() == Phase::kFailed &&
        KindOf(*iteration->ledger().progress().error) == FailureKind::kSourceChanged) {
      const Dataset* dataset = datasets_.Find(iteration->spec().dataset);
      // Whoever registers the definition again is given another dataset, whose files are listed
      // anew.
      if (dataset != nullptr && !dataset->retired) {
        Commit(now, record::DatasetRetired{.dataset = dataset->id}, out);
      }
    }
  }
  // Behind the iterations, which change what workers have to do.
  for (auto& [id, worker] : state_.workers.all()) {
    if (worker.dirty && worker.parked) AnswerWorker(now, worker, out);
  }
}

// Invariant (1), as far as it shows: each parked call is of a worker or a consumer that is there
// and waits for it, and nobody waits for another one. A worker's load is what it was chosen for.
bool Dispatcher::Impl::Holds() const {
  size_t waiting = 0;
  int64_t load = 0;
  for (const auto& [id, worker] : state_.workers.all()) {
    load += worker.load;
    if (worker.load < 0) return false;
    if (!worker.parked) continue;
    ++waiting;
    const auto parked = state_.parked.find(*worker.parked);
    if (parked == state_.parked.end() || parked->second.worker != id) return false;
  }
  for (const auto& [id, iteration] : iterations_.all()) {
    const Iteration::Counts counts = iteration->Count();
    waiting += counts.parked;
    load -= counts.chosen;
  }
  return waiting == state_.parked.size() && load == 0 && datasets_.Holds() &&
         state_.touched.empty();
}

// --- Records ---

// Of an iteration that is there.
absl::Status Dispatcher::Impl::ApplyToIteration(IterationId id, const Record& any) {
  Iteration* iteration = iterations_.Find(id);
  if (iteration == nullptr) return absl::InvalidArgumentError("the iteration is not known");
  if (std::holds_alternative<record::IterationStarted>(any)) {
    // The record says no more than that it began: the shape is made of its dataset.
    const DatasetId dataset = iteration->spec().dataset;
    if (datasets_.Find(dataset) == nullptr) {
      return absl::InvalidArgumentError("the dataset is not known");
    }
    ErrorPtr why;
    std::shared_ptr<const Shape> shape = datasets_.ShapeOf(dataset, why);
    if (shape == nullptr) return absl::InvalidArgumentError(why->message);
    return iteration->Apply(std::move(shape));
  }
  return iteration->Apply(any);
}

// By whoever takes a record of that type; what nobody does is of an iteration.
absl::Status Dispatcher::Impl::Apply(Time /*at*/, const Record& any) {
  return std::visit(
      [&](const auto& r) {
        using R = std::decay_t<decltype(r)>;
        if constexpr (std::is_same_v<R, record::CountersKept>) {
          // The record names the first id that is free, and `Note` takes the last that is not.
          state_.ids.Note(r.next_id - 1);
          return absl::OkStatus();
        } else if constexpr (requires { iterations_.Apply(r); }) {
          return iterations_.Apply(r);
        } else if constexpr (requires { datasets_.Apply(r); }) {
          absl::Status applied = datasets_.Apply(r);
          if (applied.ok()) NoteApplied(r);
          return applied;
        } else {
          return ApplyToIteration(r.iteration, any);
        }
      },
      any);
}

void Dispatcher::Impl::Restore(Time at, const Record& any, const absl::Status& unfit) {
  LOCKSTEP_DCHECK(state_.parked.empty() && state_.workers.empty());
  // So that there is an iteration that fails, and nobody begins it anew.
  const bool opens = std::holds_alternative<record::IterationOpened>(any);
  absl::Status applied = unfit.ok() || opens ? Apply(at, any) : unfit;
  if (applied.ok()) applied = unfit;
  if (applied.ok()) return;
  const IterationId id = std::visit(
      [](const auto& r) {
        if constexpr (requires { r.iteration; }) {
          return r.iteration;
        } else {
          return IterationId();
        }
      },
      any);
  Iteration* const iteration = iterations_.Find(id);
  const bool over = iteration != nullptr && (iteration->phase() == Phase::kFailed ||
                                             iteration->phase() == Phase::kFinished);
  if (over) return;  // what follows the first one
  const std::string what =
      iteration != nullptr ? absl::StrCat("iteration '", iteration->spec().name, "', repetition ",
                                          iteration->spec().repetition, ", is set aside")
                           : "a record of the data service is left out";
  std::string text = absl::StrCat(what, ": the state directory has a record that cannot be used: ",
                                  std::string(applied.message()));
  // One damaged file may give thousands of them.
  if (misfits_.size() < kMisfitsToldMax) misfits_.push_back(text);
  if (iteration == nullptr) return;
  const Record ended = record::IterationEnded{
      .iteration = id,
      .error = MakeError(absl::StatusCode::kDataLoss, reason::kIterationSetAside,
                         absl::StrCat(text, "; read it again under another name"))};
  // Applied at once: records of the iteration that follow find it over. Recorded by `Restored`.
  if (iteration->Apply(ended).ok()) set_aside_.push_back(ended);
}

std::vector<TimedRecord> Dispatcher::Impl::Snapshot() const {
  std::vector<Record> records;
  // First, since ids of what was forgotten are in no other record.
  records.push_back(record::CountersKept{.next_id = state_.ids.last() + 1});
  // Datasets before the iterations that are made of them.
  datasets_.Snapshot(records);
  for (const auto& [id, iteration] : iterations_.all()) iteration->ledger().Snapshot(records);
  std::vector<TimedRecord> timed;
  timed.reserve(records.size());
  for (Record& record : records) timed.push_back({.record = std::move(record)});
  return timed;
}

std::vector<ConsumerProcess> Dispatcher::Impl::Processes() const {
  std::vector<ConsumerProcess> processes;
  for (const auto& [id, iteration] : iterations_.all())
    ListProcesses(iteration->ledger(), processes);
  return processes;
}

std::optional<ConsumerProcess> Dispatcher::Impl::ProcessOf(IterationId iteration,
                                                           ConsumerId consumer) const {
  const Iteration* const found = iterations_.Find(iteration);
  return found == nullptr ? std::nullopt : dispatch::ProcessOf(found->ledger(), consumer);
}

Dispatcher::Dispatcher(Options options) : impl_(std::make_unique<Impl>(options)) {}
Dispatcher::~Dispatcher() = default;
void Dispatcher::Handle(Time now, Event event, Effects& out) {
  impl_->Handle(now, std::move(event), out);
}
Time Dispatcher::NextDeadline() const { return impl_->NextDeadline(); }
View Dispatcher::GetView(Time now) const {
  View view;
  ViewCursor cursor;
  while (impl_->ReadView(now, cursor, view)) {
  }
  return view;
}
bool Dispatcher::ReadView(Time now, ViewCursor& cursor, View& out) const {
  return impl_->ReadView(now, cursor, out);
}
std::vector<ConsumerProcess> Dispatcher::Processes() const { return impl_->Processes(); }
std::optional<ConsumerProcess> Dispatcher::ProcessOf(IterationId iteration,
                                                     ConsumerId consumer) const {
  return impl_->ProcessOf(iteration, consumer);
}
absl::Status Dispatcher::Apply(Time at, const Record& record) { return impl_->Apply(at, record); }
void Dispatcher::Restore(Time at, const Record& record, const absl::Status& unfit) {
  impl_->Restore(at, record, unfit);
}
std::vector<TimedRecord> Dispatcher::Snapshot() const { return impl_->Snapshot(); }

}  // namespace lockstep::dispatch

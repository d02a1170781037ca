#include "lockstep/dispatch/dispatcher.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/check.h"
#include "lockstep/dispatch/iteration.h"
#include "lockstep/dispatch/workers_wanted.h"

namespace lockstep::dispatch {

namespace {

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

  bool ready() const { return resolved || !needs_manifest; }
};

constexpr char kAnonymous[] = "anonymous-";

template <class T>
void Compare(std::vector<std::string>& differences, const char* what, const T& there,
             const T& asked) {
  if (there == asked) return;
  differences.push_back(absl::StrCat(what, " is ", there, " there and ", asked, " here"));
}

std::string Text(std::string_view text) { return std::string(text); }

ErrorPtr Invalid(std::string message) {
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kInvalidArgument,
                   std::move(message));
}

ErrorPtr Limit(std::string message) {
  return MakeError(absl::StatusCode::kResourceExhausted, reason::kLimitReached, std::move(message));
}

}  // namespace

class Dispatcher::Impl {
 public:
  explicit Impl(Options options) {
    env_.last_id = options.first_id;
    env_.options = std::move(options);
  }

  void Handle(Time now, Event event, Effects& out) {
    std::visit([&](auto& what) { On(now, what, out); }, event);
    ReachDeadlines(now, out);
    Settle(now, out);
  }
  Time NextDeadline() const { return env_.deadlines.Next(); }
  View GetView(Time now) const;
  absl::Status Apply(Time at, const Record& record);
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
  void On(Time /*now*/, const DeadlineReached& /*fact*/, Effects& /*out*/) {}
  void On(Time now, const Restored& fact, Effects& out);
  void On(Time now, const Stop& fact, Effects& out);

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

  template <class R>
  void Commit(Time now, R record, Effects& out) {
    const Record kept = std::move(record);
    LOCKSTEP_CHECK(Apply(now, kept).ok());
    out.records.push_back(kept);
  }

  Environment env_;
  std::map<DatasetId, Dataset> datasets_;
  std::map<std::string, DatasetId> by_name_;
  std::map<std::string, DatasetId> by_identity_;  // of those without a name of their own
  std::map<IterationId, std::unique_ptr<Iteration>> iterations_;
  std::map<std::pair<std::string, int64_t>, IterationId> by_key_;
  bool stopped_ = false;
};

// --- Datasets ---

Dataset* Dispatcher::Impl::FindDataset(DatasetId id) {
  const auto found = datasets_.find(id);
  return found == datasets_.end() ? nullptr : &found->second;
}

const Dataset* Dispatcher::Impl::FindDataset(DatasetId id) const {
  const auto found = datasets_.find(id);
  return found == datasets_.end() ? nullptr : &found->second;
}

void Dispatcher::Impl::On(Time now, const RegisterDataset& request, Effects& out) {
  const Options& options = env_.options;
  if (request.name.size() > options.name_bytes_max || request.identity.empty()) {
    return out.Fail(request.call, Invalid(absl::StrCat("a dataset's name has at most ",
                                                       options.name_bytes_max, " bytes")));
  }
  if (request.definition.size() > options.definition_bytes_max) {
    return out.Fail(
        request.call,
        Limit(absl::StrCat("the definition has ", request.definition.size(),
                           " bytes (definition_bytes_max: ", options.definition_bytes_max, ")")));
  }
  const auto& index = request.name.empty() ? by_identity_ : by_name_;
  const auto found = index.find(request.name.empty() ? request.identity : request.name);
  if (found != index.end()) {
    const Dataset& known = *FindDataset(found->second);
    if (known.identity != request.identity) {
      return out.Fail(
          request.call,
          MakeError(absl::StatusCode::kInvalidArgument, reason::kDatasetDiffers,
                    absl::StrCat("dataset ", known.name, " is another one: identity ",
                                 known.identity, " there and ", request.identity, " here")));
    }
    SetDatasetIdle(now, known.id);
    return out.Succeed(request.call, DatasetRegistered{.dataset = known.id, .name = known.name});
  }
  if (datasets_.size() >= options.datasets_max) {
    return out.Fail(request.call, Limit(absl::StrCat("there are ", datasets_.size(),
                                                     " datasets (datasets_max)")));
  }
  const DatasetId id(env_.NextId());
  Commit(now,
         record::DatasetRegistered{.dataset = id,
                                   .name = request.name,
                                   .identity = request.identity,
                                   .definition = request.definition,
                                   .element_spec = request.element_spec,
                                   .needs_manifest = request.needs_manifest},
         out);
  SetDatasetIdle(now, id);
  out.Succeed(request.call, DatasetRegistered{.dataset = id, .name = FindDataset(id)->name});
}

void Dispatcher::Impl::On(Time /*now*/, const GetDataset& request, Effects& out) {
  DatasetId id = request.dataset;
  if (id == DatasetId()) {
    if (const auto named = by_name_.find(request.name); named != by_name_.end()) {
      id = named->second;
    } else if (const auto same = by_identity_.find(request.name); same != by_identity_.end()) {
      id = same->second;
    }
  }
  const Dataset* dataset = FindDataset(id);
  if (dataset == nullptr) {
    return out.Fail(request.call, MakeError(absl::StatusCode::kNotFound, reason::kDatasetUnknown,
                                            absl::StrCat("there is no dataset ",
                                                         request.dataset == DatasetId()
                                                             ? request.name
                                                             : absl::StrCat(id.value()))));
  }
  out.Succeed(request.call, DatasetGiven{.dataset = id,
                                         .name = dataset->name,
                                         .identity = dataset->identity,
                                         .definition = dataset->definition,
                                         .element_spec = dataset->element_spec,
                                         .needs_manifest = dataset->needs_manifest,
                                         .resolved = dataset->ready(),
                                         .manifest = dataset->manifest});
}

size_t Dispatcher::Impl::IterationsOf(DatasetId id) const {
  return static_cast<size_t>(
      std::count_if(iterations_.begin(), iterations_.end(),
                    [&](const auto& entry) { return entry.second->spec().dataset == id; }));
}

void Dispatcher::Impl::SetDatasetIdle(Time now, DatasetId id) {
  const Due due{.kind = DueKind::kDatasetIdle, .dataset = id};
  if (IterationsOf(id) > 0) return env_.deadlines.Clear(due);
  env_.deadlines.Set(due, now + env_.options.dataset_timeout);
}

std::shared_ptr<const Shape> Dispatcher::Impl::ShapeOf(Dataset& dataset, ErrorPtr& why) {
  if (dataset.shape == nullptr) {
    ShapeOrError made = env_.options.make_shape(dataset.definition, dataset.manifest);
    why = made.error;
    dataset.shape = std::move(made.shape);
  }
  return dataset.shape;
}

void Dispatcher::Impl::StartIterations(Time now, Dataset& dataset, Effects& out) {
  if (std::none_of(iterations_.begin(), iterations_.end(), [&](const auto& entry) {
        return entry.second->spec().dataset == dataset.id &&
               entry.second->phase() == Phase::kResolving;
      })) {
    return;
  }
  if (!dataset.ready()) return env_.workers.TouchAll();
  ErrorPtr why;
  const std::shared_ptr<const Shape> shape = ShapeOf(dataset, why);
  if (shape == nullptr) return FailIterations(now, dataset.id, why, out);
  for (auto& [id, iteration] : iterations_) {
    if (iteration->spec().dataset != dataset.id) continue;
    iteration->Start(now, shape, out);
    env_.touched.insert(id);
  }
  env_.workers.TouchAll();
}

void Dispatcher::Impl::FailIterations(Time now, DatasetId id, const ErrorPtr& error, Effects& out) {
  for (auto& [iteration_id, iteration] : iterations_) {
    if (iteration->spec().dataset != id || iteration->phase() != Phase::kResolving) continue;
    iteration->End(now, error, out);
    env_.touched.insert(iteration_id);
  }
}

bool Dispatcher::Impl::NeedsResolving(const Dataset& dataset) const {
  if (dataset.ready()) return false;
  return std::any_of(iterations_.begin(), iterations_.end(), [&](const auto& entry) {
    return entry.second->spec().dataset == dataset.id && entry.second->phase() == Phase::kResolving;
  });
}

WorkerId Dispatcher::Impl::Resolver(const Dataset& dataset) const {
  WorkerTable::Avoid avoid;
  for (const auto& [worker, tries] : dataset.resolve_tries) avoid[worker] = Time::Infinite();
  return env_.workers.ForKey(static_cast<uint64_t>(dataset.id.value()), avoid);
}

void Dispatcher::Impl::TakeResolved(Time now, WorkerId worker, const ResolveReport& report,
                                    Effects& out) {
  Dataset* dataset = FindDataset(report.dataset);
  // Another worker was faster, or nobody wants it any more.
  if (dataset == nullptr || !NeedsResolving(*dataset)) return;
  if (report.error != nullptr) {
    const bool elsewhere = report.error->code == absl::StatusCode::kUnavailable ||
                           report.error->code == absl::StatusCode::kCancelled;
    int32_t tries = ++dataset->resolve_tries[worker];
    if (elsewhere && tries < env_.options.segment_tries) return env_.workers.TouchAll();
    dataset->resolve_tries.clear();
    return FailIterations(now, dataset->id, report.error, out);
  }
  if (report.manifest.size() > env_.options.manifest_bytes_max) {
    return FailIterations(
        now, dataset->id,
        Limit(absl::StrCat("the list of the ", report.files, " files of dataset ", dataset->name,
                           " has ", report.manifest.size(), " bytes (manifest_bytes_max)")),
        out);
  }
  Commit(now, record::DatasetResolved{.dataset = dataset->id, .manifest = report.manifest}, out);
  out.Tell(Severity::kInfo,
           absl::StrCat("dataset ", dataset->name, " has ", report.files, " files"));
  StartIterations(now, *dataset, out);
}

// --- Iterations ---

Iteration* Dispatcher::Impl::FindIteration(IterationId id) {
  const auto found = iterations_.find(id);
  return found == iterations_.end() ? nullptr : found->second.get();
}

ErrorPtr Dispatcher::Impl::UnknownIteration(IterationId id) {
  return MakeError(absl::StatusCode::kNotFound, reason::kUnknownIteration,
                   absl::StrCat("there is no iteration ", id.value(),
                                ": it was collected, or the service is another one"));
}

ErrorPtr Dispatcher::Impl::CheckSpec(const IterationSpec& spec, const Dataset*& dataset,
                                     Cursor& start) const {
  const auto unsupported = [](std::string message) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason::kShardingUnsupported,
                     std::move(message));
  };
  if (spec.name.size() > env_.options.name_bytes_max ||
      spec.cursor.size() > env_.options.cursor_bytes_max) {
    return Limit(
        "the name or the cursor of an iteration is too long (name_bytes_max, "
        "cursor_bytes_max)");
  }
  if (absl::StartsWith(spec.name, kAnonymous)) {
    return Invalid("iterations that begin with `anonymous-` are made by the service");
  }
  if (spec.repetition < 0) return Invalid("a repetition is not negative");
  dataset = FindDataset(spec.dataset);
  if (dataset == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, reason::kDatasetUnknown,
                     absl::StrCat("there is no dataset ", spec.dataset.value()));
  }
  const bool is_static =
      spec.sharding == Sharding::kStaticData || spec.sharding == Sharding::kStaticFile;
  if (spec.sharding == Sharding::kHint) {
    return unsupported("sharding by hint is not supported: share out statically by file or data");
  }
  if (spec.sharding == Sharding::kOff && spec.mode != Mode::kFirstCome) {
    return unsupported(
        absl::StrCat("without sharding each worker makes a whole pass: that is "
                     "first_come only, not ",
                     Text(ModeName(spec.mode))));
  }
  if (is_static && spec.mode == Mode::kExact) {
    return unsupported("exact order has one lane, which is not shared out: use dynamic");
  }
  if (is_static &&
      (spec.shares <= 0 || static_cast<size_t>(spec.shares) > env_.options.shares_max)) {
    return Invalid(absl::StrCat("static sharding needs the number of shares, not ", spec.shares));
  }
  if (!spec.worker_addresses.empty() &&
      static_cast<int32_t>(spec.worker_addresses.size()) != spec.shares) {
    return Invalid("there is one worker address for each share");
  }
  if (spec.mode != Mode::kFirstCome &&
      (spec.consumers <= 0 || static_cast<size_t>(spec.consumers) > env_.options.consumers_max)) {
    return Invalid(absl::StrCat(Text(ModeName(spec.mode)), " needs the number of consumers, not ",
                                spec.consumers));
  }
  if (spec.cursor.empty()) return nullptr;
  const std::variant<Cursor, ErrorPtr> decoded = DecodeCursor(spec.cursor);
  if (std::holds_alternative<ErrorPtr>(decoded)) return std::get<ErrorPtr>(decoded);
  start = std::get<Cursor>(decoded);
  const auto mismatch = [](std::string message) {
    return MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                     std::move(message));
  };
  if (start.mode != spec.mode) {
    return mismatch(absl::StrCat("the cursor is of a reading in mode ", Text(ModeName(start.mode)),
                                 ", and this is ", Text(ModeName(spec.mode))));
  }
  if (start.definition != dataset->identity) {
    return mismatch(absl::StrCat("the cursor is of another dataset: identity ", start.definition,
                                 ", and this is ", dataset->identity));
  }
  if (is_static) return mismatch("a cursor goes on only where segments are shared out dynamically");
  return nullptr;
}

ErrorPtr Dispatcher::Impl::CheckSame(const Iteration& iteration, const IterationSpec& spec,
                                     const Cursor& start) const {
  const IterationSpec& there = iteration.spec();
  std::vector<std::string> differences;
  const auto name_of = [&](DatasetId id) {
    const Dataset* dataset = FindDataset(id);
    return dataset == nullptr ? absl::StrCat(id.value()) : dataset->name;
  };
  if (there.dataset != spec.dataset) {
    differences.push_back(absl::StrCat("the dataset is ", name_of(there.dataset), " there and ",
                                       name_of(spec.dataset), " here"));
  }
  Compare(differences, "the order", Text(ModeName(there.mode)), Text(ModeName(spec.mode)));
  Compare(differences, "the sharding", Text(ShardingName(there.sharding)),
          Text(ShardingName(spec.sharding)));
  Compare(differences, "the visitation", Text(VisitationName(there.visitation)),
          Text(VisitationName(spec.visitation)));
  Compare(differences, "the number of consumers", there.consumers, spec.consumers);
  Compare(differences, "the number of shares", there.shares, spec.shares);
  Compare(differences, "the list of workers", absl::StrJoin(there.worker_addresses, ","),
          absl::StrJoin(spec.worker_addresses, ","));
  if (!SamePlace(iteration.start(), start) || there.cursor.empty() != spec.cursor.empty()) {
    differences.push_back("the cursors are not of the same place");
  }
  if (differences.empty()) return nullptr;
  return MakeError(absl::StatusCode::kInvalidArgument, reason::kIterationDiffers,
                   absl::StrCat("iteration ", iteration.Name(),
                                " is another one: ", absl::StrJoin(differences, "; ")));
}

void Dispatcher::Impl::On(Time now, const OpenIteration& request, Effects& out) {
  if (stopped_) {
    return out.Fail(request.call, MakeError(absl::StatusCode::kUnavailable, reason::kStopped,
                                            "the data service is stopping"));
  }
  const Dataset* dataset = nullptr;
  Cursor start{.mode = request.spec.mode};
  if (ErrorPtr error = CheckSpec(request.spec, dataset, start); error != nullptr) {
    return out.Fail(request.call, std::move(error));
  }
  if (request.consumer.empty() || request.consumer.size() > env_.options.name_bytes_max) {
    return out.Fail(request.call,
                    Invalid("a consumer has a name, of at most name_bytes_max bytes"));
  }
  if (request.spec.mode != Mode::kFirstCome && request.index >= request.spec.consumers &&
      request.spec.mode == Mode::kExact) {
    return out.Fail(request.call,
                    Invalid(absl::StrCat("consumer ", request.index, " of ", request.spec.consumers,
                                         ": they are counted from 0")));
  }
  Iteration* iteration = nullptr;
  if (request.spec.name.empty()) {
    // Asked once more, since the answer was lost.
    for (auto& [id, other] : iterations_) {
      if (absl::StartsWith(other->spec().name, kAnonymous) &&
          other->HasConsumer(request.consumer, request.life)) {
        iteration = other.get();
      }
    }
  } else if (const auto key = by_key_.find({request.spec.name, request.spec.repetition});
             key != by_key_.end()) {
    iteration = FindIteration(key->second);
  }
  if (iteration != nullptr) {
    if (ErrorPtr error = CheckSame(*iteration, request.spec, start); error != nullptr) {
      return out.Fail(request.call, std::move(error));
    }
  } else {
    if (iterations_.size() >= env_.options.iterations_max) {
      return out.Fail(request.call, Limit(absl::StrCat("there are ", iterations_.size(),
                                                       " iterations (iterations_max)")));
    }
    const IterationId id(env_.NextId());
    IterationSpec spec = request.spec;
    if (spec.name.empty()) spec.name = absl::StrCat(kAnonymous, id.value());
    Commit(now, record::IterationOpened{.iteration = id, .spec = std::move(spec)}, out);
    iteration = FindIteration(id);
    SetDatasetIdle(now, dataset->id);
    StartIterations(now, *FindDataset(dataset->id), out);
  }
  iteration->Open(now, request, out);
}

void Dispatcher::Impl::On(Time now, const ConsumerPoll& request, Effects& out) {
  Iteration* iteration = FindIteration(request.iteration);
  if (iteration == nullptr) return out.Fail(request.call, UnknownIteration(request.iteration));
  iteration->Poll(now, request, out);
}

void Dispatcher::Impl::On(Time now, const CloseConsumer& request, Effects& out) {
  Iteration* iteration = FindIteration(request.iteration);
  if (iteration == nullptr) return out.Succeed(request.call, ConsumerClosed{});
  iteration->Close(now, request, out);
}

void Dispatcher::Impl::Collect(Time now, IterationId id, Effects& out) {
  Iteration* iteration = FindIteration(id);
  if (iteration == nullptr || iteration->has_consumers()) return;
  out.Tell(Severity::kInfo,
           absl::StrCat("iteration ", iteration->Name(), " is collected: nobody reads it"));
  const DatasetId dataset = iteration->spec().dataset;
  // What was given to its readers is given no more.
  iteration->End(
      now, MakeError(absl::StatusCode::kAborted, reason::kIterationCollected, "collected"), out);
  iteration->Abandon(now, nullptr, out);
  Commit(now, record::IterationCollected{.iteration = id}, out);
  env_.workers.TouchAll();
  SetDatasetIdle(now, dataset);
}

// --- Workers ---

void Dispatcher::Impl::On(Time now, const WorkerPoll& request, Effects& out) {
  if (request.version != env_.options.worker_version) {
    return out.Fail(
        request.call,
        MakeError(absl::StatusCode::kFailedPrecondition, reason::kWorkerVersion,
                  absl::StrCat("the worker at ", request.address, " speaks version ",
                               request.version, ", and this dispatcher version ",
                               env_.options.worker_version, ": start both from the same release")));
  }
  if (request.worker == WorkerId() || request.address.empty() ||
      request.address.size() > env_.options.name_bytes_max) {
    return out.Fail(request.call, Invalid("a worker has a number and an address"));
  }
  Worker* worker = env_.workers.Find(request.worker);
  if (request.leaving) {
    if (worker != nullptr) LoseWorker(now, request.worker, "it leaves", out);
    return out.Succeed(request.call, WorkerOrders{.service = env_.options.service});
  }
  const bool came = worker == nullptr;
  if (came) {
    if (Worker* former = env_.workers.FindByAddress(request.address); former != nullptr) {
      LoseWorker(now, former->id, "another process has its address", out);
    }
    if (env_.workers.size() >= env_.options.workers_max) {
      return out.Fail(request.call, Limit(absl::StrCat("there are ", env_.workers.size(),
                                                       " workers (workers_max)")));
    }
    worker = &env_.workers.Add(request.worker);
    worker->id = request.worker;
    out.Tell(Severity::kInfo, absl::StrCat("the worker at ", request.address, " has come"));
  } else if (worker->parked) {
    AnswerWorker(now, *worker, out);
  }
  worker->address = request.address;
  worker->host_card = request.host_card;
  worker->tags = request.tags;
  worker->host = request.host;
  worker->pid = request.pid;
  worker->heard = now;
  worker->link_ended = false;
  env_.deadlines.Set({.kind = DueKind::kWorkerLost, .worker = worker->id},
                     now + env_.options.worker_timeout);
  for (const ProcessingTime& time : request.times) {
    if (time.element_time > absl::ZeroDuration() && FindDataset(time.dataset) != nullptr) {
      worker->times[time.dataset] = time.element_time;
    }
  }
  worker->parked = request.call;
  env_.parked[request.call] = {.worker = worker->id};
  const absl::Duration wait = std::min(request.wait, env_.options.poll_wait_max);
  if (wait > absl::ZeroDuration()) {
    env_.deadlines.Set({.kind = DueKind::kWorkerPark, .worker = worker->id}, now + wait);
  }
  const bool seen = request.service == env_.options.service && request.after == worker->version;
  worker->dirty = worker->dirty || !seen || wait <= absl::ZeroDuration();
  if (came) {
    for (auto& [id, iteration] : iterations_) {
      iteration->WorkerCame(now, *worker, out);
      env_.touched.insert(id);
    }
  }
  for (const ResolveReport& report : request.resolved) {
    TakeResolved(now, request.worker, report, out);
  }
}

void Dispatcher::Impl::AnswerWorker(Time now, Worker& worker, Effects& out) {
  const CallId call = *worker.parked;
  worker.parked.reset();
  worker.dirty = false;
  env_.parked.erase(call);
  env_.deadlines.Clear({.kind = DueKind::kWorkerPark, .worker = worker.id});
  worker.heard = now;
  env_.deadlines.Set({.kind = DueKind::kWorkerLost, .worker = worker.id},
                     now + env_.options.worker_timeout);
  WorkerOrders orders{.service = env_.options.service,
                      .version = worker.version,
                      .poll_within = env_.options.worker_timeout / 2};
  for (const auto& [id, iteration] : iterations_) iteration->ListTasks(worker.id, orders.tasks);
  for (const auto& [id, dataset] : datasets_) {
    if (NeedsResolving(dataset) && Resolver(dataset) == worker.id) orders.resolve.push_back(id);
  }
  out.Succeed(call, std::move(orders));
}

void Dispatcher::Impl::LoseWorker(Time /*now*/, WorkerId id, const std::string& why, Effects& out) {
  Worker* worker = env_.workers.Find(id);
  if (worker == nullptr) return;
  out.Tell(Severity::kWarning, absl::StrCat("the worker at ", worker->address, " is gone: ", why));
  if (worker->parked) {
    env_.parked.erase(*worker->parked);
    out.Fail(*worker->parked,
             MakeError(absl::StatusCode::kAborted, reason::kWorkerReplaced,
                       absl::StrCat("the worker at ", worker->address, " is not known: ", why)));
  }
  env_.deadlines.Clear({.kind = DueKind::kWorkerPark, .worker = id});
  env_.deadlines.Clear({.kind = DueKind::kWorkerLost, .worker = id});
  env_.workers.Remove(id);
  for (auto& [dataset_id, dataset] : datasets_) dataset.resolve_tries.erase(id);
  for (auto& [iteration_id, iteration] : iterations_) {
    iteration->WorkerGone(id, out);
    env_.touched.insert(iteration_id);
  }
  env_.workers.TouchAll();
}

// --- Facts ---

void Dispatcher::Impl::On(Time now, const CallLeft& fact, Effects& /*out*/) {
  const auto found = env_.parked.find(fact.call);
  if (found == env_.parked.end()) return;
  const Parked parked = found->second;
  env_.parked.erase(found);
  if (parked.worker != WorkerId()) {
    if (Worker* worker = env_.workers.Find(parked.worker); worker != nullptr) {
      worker->parked.reset();
      env_.deadlines.Clear({.kind = DueKind::kWorkerPark, .worker = parked.worker});
      if (worker->link_ended) SetGrace(now, *worker);
    }
  } else if (Iteration* iteration = FindIteration(parked.iteration); iteration != nullptr) {
    iteration->ForgetCall(parked.consumer);
  }
}

void Dispatcher::Impl::SetGrace(Time now, const Worker& worker) {
  env_.deadlines.Set(
      {.kind = DueKind::kWorkerLost, .worker = worker.id},
      std::min(now + env_.options.worker_grace, worker.heard + env_.options.worker_timeout));
}

void Dispatcher::Impl::On(Time now, const WorkerLinkEnded& fact, Effects& /*out*/) {
  Worker* worker = env_.workers.Find(fact.worker);
  if (worker == nullptr) return;
  worker->link_ended = true;
  // A poll that is parked came over another link, or its `CallLeft` comes.
  if (!worker->parked) SetGrace(now, *worker);
}

void Dispatcher::Impl::On(Time now, const ConsumerLinkEnded& fact, Effects& /*out*/) {
  if (Iteration* iteration = FindIteration(fact.iteration); iteration != nullptr) {
    iteration->ConsumerLinkEnded(now, fact.consumer);
  }
}

void Dispatcher::Impl::On(Time now, const Restored& /*fact*/, Effects& out) {
  for (auto& [id, iteration] : iterations_) {
    iteration->Restored(now);
    env_.touched.insert(id);
  }
  for (auto& [id, dataset] : datasets_) {
    SetDatasetIdle(now, id);
    // The crash came between the two records.
    StartIterations(now, dataset, out);
  }
}

void Dispatcher::Impl::On(Time now, const Stop& /*fact*/, Effects& out) {
  stopped_ = true;
  const ErrorPtr why =
      MakeError(absl::StatusCode::kUnavailable, reason::kStopped, "the data service is stopping");
  for (auto& [id, iteration] : iterations_) iteration->Abandon(now, why, out);
  for (auto& [id, worker] : env_.workers.all()) {
    if (!worker.parked) continue;
    env_.parked.erase(*worker.parked);
    out.Fail(*worker.parked, why);
    worker.parked.reset();
  }
}

void Dispatcher::Impl::ReachDeadlines(Time now, Effects& out) {
  while (const std::optional<Due> due = env_.deadlines.Pop(now)) {
    switch (due->kind) {
      case DueKind::kWorkerLost:
        LoseWorker(now, due->worker, "nothing was heard of it", out);
        break;
      case DueKind::kWorkerPark:
        if (Worker* worker = env_.workers.Find(due->worker); worker != nullptr && worker->parked) {
          AnswerWorker(now, *worker, out);
        }
        break;
      case DueKind::kIterationIdle:
        Collect(now, due->iteration, out);
        break;
      case DueKind::kDatasetIdle:
        if (IterationsOf(due->dataset) == 0) {
          Commit(now, record::DatasetForgotten{.dataset = due->dataset}, out);
        }
        break;
      default:
        if (Iteration* iteration = FindIteration(due->iteration); iteration != nullptr) {
          iteration->ReachDue(now, *due, out);
        }
    }
  }
}

void Dispatcher::Impl::Settle(Time now, Effects& out) {
  while (!env_.touched.empty()) {
    const IterationId id = *env_.touched.begin();
    env_.touched.erase(env_.touched.begin());
    Iteration* iteration = FindIteration(id);
    if (iteration == nullptr) continue;
    iteration->Settle(now, out);
    // What it touched itself is settled.
    env_.touched.erase(id);
    if (iteration->phase() == Phase::kFailed && iteration->error()->reason == "source_changed") {
      const Dataset* dataset = FindDataset(iteration->spec().dataset);
      if (dataset != nullptr && !dataset->retired) {
        Commit(now, record::DatasetRetired{.dataset = dataset->id}, out);
      }
    }
  }
  for (auto& [id, worker] : env_.workers.all()) {
    if (worker.dirty && worker.parked) AnswerWorker(now, worker, out);
  }
}

// --- Records ---

absl::Status Dispatcher::Impl::Apply(Time /*at*/, const Record& any) {
  if (const auto* r = std::get_if<record::CountersKept>(&any)) {
    env_.NoteId(r->next_id - 1);
    return absl::OkStatus();
  }
  if (const auto* r = std::get_if<record::DatasetRegistered>(&any)) {
    env_.NoteId(r->dataset.value());
    Dataset& dataset = datasets_[r->dataset];
    dataset.id = r->dataset;
    dataset.name = r->name.empty() ? r->identity : r->name;
    dataset.identity = r->identity;
    dataset.definition = r->definition;
    dataset.element_spec = r->element_spec;
    dataset.needs_manifest = r->needs_manifest;
    (r->name.empty() ? by_identity_ : by_name_)[dataset.name] = r->dataset;
    return absl::OkStatus();
  }
  const auto no_dataset = [] { return absl::InvalidArgumentError("the dataset is not known"); };
  if (const auto* r = std::get_if<record::DatasetResolved>(&any)) {
    Dataset* dataset = FindDataset(r->dataset);
    if (dataset == nullptr) return no_dataset();
    dataset->resolved = true;
    dataset->manifest = r->manifest;
    dataset->shape.reset();
    dataset->resolve_tries.clear();
    return absl::OkStatus();
  }
  const auto unlist = [this](const Dataset& dataset) {
    for (auto* index : {&by_name_, &by_identity_}) {
      const auto found = index->find(dataset.name);
      if (found != index->end() && found->second == dataset.id) index->erase(found);
    }
  };
  if (const auto* r = std::get_if<record::DatasetRetired>(&any)) {
    Dataset* dataset = FindDataset(r->dataset);
    if (dataset == nullptr) return no_dataset();
    dataset->retired = true;
    unlist(*dataset);
    return absl::OkStatus();
  }
  if (const auto* r = std::get_if<record::DatasetForgotten>(&any)) {
    const Dataset* dataset = FindDataset(r->dataset);
    if (dataset == nullptr) return no_dataset();
    unlist(*dataset);
    for (auto& [id, worker] : env_.workers.all()) worker.times.erase(r->dataset);
    datasets_.erase(r->dataset);
    return absl::OkStatus();
  }
  if (const auto* r = std::get_if<record::IterationOpened>(&any)) {
    env_.NoteId(r->iteration.value());
    Cursor start{.mode = r->spec.mode};
    if (!r->spec.cursor.empty()) {
      const std::variant<Cursor, ErrorPtr> decoded = DecodeCursor(r->spec.cursor);
      if (!std::holds_alternative<Cursor>(decoded)) {
        return absl::InvalidArgumentError("an iteration begins at what is no cursor");
      }
      start = std::get<Cursor>(decoded);
    }
    by_key_[{r->spec.name, r->spec.repetition}] = r->iteration;
    iterations_[r->iteration] =
        std::make_unique<Iteration>(env_, r->iteration, r->spec, std::move(start));
    return absl::OkStatus();
  }
  const IterationId id = std::visit(
      [](const auto& r) {
        if constexpr (requires { r.iteration; }) {
          return r.iteration;
        } else {
          return IterationId();
        }
      },
      any);
  Iteration* iteration = FindIteration(id);
  if (iteration == nullptr) return absl::InvalidArgumentError("the iteration is not known");
  if (std::holds_alternative<record::IterationStarted>(any)) {
    Dataset* dataset = FindDataset(iteration->spec().dataset);
    if (dataset == nullptr) return no_dataset();
    ErrorPtr why;
    std::shared_ptr<const Shape> shape = ShapeOf(*dataset, why);
    if (shape == nullptr) return absl::InvalidArgumentError(why->message);
    return iteration->ApplyStarted(std::move(shape));
  }
  if (std::holds_alternative<record::IterationCollected>(any)) {
    by_key_.erase({iteration->spec().name, iteration->spec().repetition});
    env_.touched.erase(id);
    iterations_.erase(id);
    return absl::OkStatus();
  }
  return iteration->Apply(any);
}

std::vector<TimedRecord> Dispatcher::Impl::Snapshot() const {
  std::vector<Record> records;
  records.push_back(record::CountersKept{.next_id = env_.last_id + 1});
  for (const auto& [id, dataset] : datasets_) {
    // One that is retired comes first, so that its successor is found by the identity.
    records.push_back(
        record::DatasetRegistered{.dataset = id,
                                  .name = dataset.name == dataset.identity ? "" : dataset.name,
                                  .identity = dataset.identity,
                                  .definition = dataset.definition,
                                  .element_spec = dataset.element_spec,
                                  .needs_manifest = dataset.needs_manifest});
    if (dataset.resolved) {
      records.push_back(record::DatasetResolved{.dataset = id, .manifest = dataset.manifest});
    }
    if (dataset.retired) records.push_back(record::DatasetRetired{.dataset = id});
  }
  for (const auto& [id, iteration] : iterations_) iteration->Snapshot(records);
  std::vector<TimedRecord> timed;
  timed.reserve(records.size());
  for (Record& record : records) timed.push_back({.record = std::move(record)});
  return timed;
}

View Dispatcher::Impl::GetView(Time now) const {
  View view{.parked = env_.parked.size()};
  for (const auto& [id, dataset] : datasets_) {
    view.datasets.push_back({.dataset = id,
                             .name = dataset.name,
                             .identity = dataset.identity,
                             .needs_manifest = dataset.needs_manifest,
                             .resolved = dataset.ready(),
                             .definition_bytes = dataset.definition.size(),
                             .manifest_bytes = dataset.manifest.size(),
                             .iterations = IterationsOf(id)});
  }
  std::map<WorkerId, size_t> tasks;
  const auto current = static_cast<int64_t>(env_.workers.size());
  for (const auto& [id, iteration] : iterations_) {
    IterationRow row = iteration->Row(now);
    for (const TaskRow& task : row.tasks) ++tasks[task.worker];
    WorkersWanted wanted;
    for (const auto& [worker_id, worker] : env_.workers.all()) {
      const auto time = worker.times.find(row.spec.dataset);
      if (time != worker.times.end()) wanted.ReportWorker(worker_id, time->second);
    }
    for (const ConsumerRow& consumer : row.consumers) {
      if (!consumer.finished) wanted.ReportConsumer(consumer.consumer, consumer.element_time);
    }
    if (row.phase == Phase::kReading) {
      if (const std::optional<int64_t> estimate = wanted.Estimate()) {
        row.workers_wanted = BoundWorkersWanted(*estimate, current);
        view.workers_wanted = std::max(view.workers_wanted, row.workers_wanted);
      }
    }
    view.iterations.push_back(std::move(row));
  }
  for (const auto& [id, worker] : env_.workers.all()) {
    absl::Duration time;
    for (const auto& [dataset, element_time] : worker.times) time = std::max(time, element_time);
    view.workers.push_back({.worker = id,
                            .address = worker.address,
                            .host = worker.host,
                            .pid = worker.pid,
                            .tags = worker.tags,
                            .tasks = tasks[id],
                            .grants = static_cast<size_t>(std::max<int64_t>(0, worker.load)),
                            .silent = worker.parked ? absl::ZeroDuration() : now - worker.heard,
                            .element_time = time});
  }
  return view;
}

Dispatcher::Dispatcher(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Dispatcher::~Dispatcher() = default;
void Dispatcher::Handle(Time now, Event event, Effects& out) {
  impl_->Handle(now, std::move(event), out);
}
Time Dispatcher::NextDeadline() const { return impl_->NextDeadline(); }
View Dispatcher::GetView(Time now) const { return impl_->GetView(now); }
absl::Status Dispatcher::Apply(Time at, const Record& record) { return impl_->Apply(at, record); }
std::vector<TimedRecord> Dispatcher::Snapshot() const { return impl_->Snapshot(); }

}  // namespace lockstep::dispatch

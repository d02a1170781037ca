// Datasets: by identity, their plans, and who lists their files.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/dispatch/dispatcher_impl.h"

namespace lockstep::dispatch {

Dataset* Dispatcher::Impl::FindDataset(DatasetId id) {
  const auto found = datasets_.find(id);
  return found == datasets_.end() ? nullptr : &found->second;
}

const Dataset* Dispatcher::Impl::FindDataset(DatasetId id) const {
  const auto found = datasets_.find(id);
  return found == datasets_.end() ? nullptr : &found->second;
}

void Dispatcher::Impl::On(Time now, const RegisterDataset& request, Effects& out) {
  const Options& options = state_.options;
  if (request.name.size() > options.name_bytes_max || request.identity.empty()) {
    return out.Fail(request.call, InvalidRequest(absl::StrCat("a dataset's name has at most ",
                                                              options.name_bytes_max, " bytes")));
  }
  if (request.definition.size() > options.definition_bytes_max) {
    return out.Fail(request.call,
                    LimitReached(absl::StrCat(
                        "the definition has ", request.definition.size(),
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
    return out.Fail(request.call, LimitReached(absl::StrCat("there are ", datasets_.size(),
                                                            " datasets (datasets_max)")));
  }
  const DatasetId id(state_.ids.Next());
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
  if (IterationsOf(id) > 0) return state_.deadlines.Clear(due);
  state_.deadlines.Set(due, now + state_.options.dataset_timeout);
}

std::shared_ptr<const Shape> Dispatcher::Impl::ShapeOf(Dataset& dataset, ErrorPtr& why) {
  if (dataset.shape == nullptr) {
    ShapeOrError made = state_.options.make_shape(dataset.definition, dataset.manifest);
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
  if (!dataset.ready()) return state_.workers.TouchAll();
  ErrorPtr why;
  const std::shared_ptr<const Shape> shape = ShapeOf(dataset, why);
  if (shape == nullptr) return FailIterations(now, dataset.id, why, out);
  for (auto& [id, iteration] : iterations_) {
    if (iteration->spec().dataset != dataset.id) continue;
    iteration->Start(now, shape, out);
    state_.touched.insert(id);
  }
  state_.workers.TouchAll();
}

void Dispatcher::Impl::FailIterations(Time now, DatasetId id, const ErrorPtr& error, Effects& out) {
  for (auto& [iteration_id, iteration] : iterations_) {
    if (iteration->spec().dataset != id || iteration->phase() != Phase::kResolving) continue;
    iteration->End(now, error, out);
    state_.touched.insert(iteration_id);
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
  for (const WorkerId worker : dataset.resolve_late) avoid[worker] = Time::Infinite();
  return state_.workers.ForKey(static_cast<uint64_t>(dataset.id.value()), avoid);
}

void Dispatcher::Impl::AskToResolve(Time now, Dataset& dataset, WorkerId worker) {
  Resolving& resolving = state_.resolving[dataset.id];
  if (resolving.worker == worker) return;
  const auto [asked, first] = dataset.resolve_asked.emplace(worker, now);
  resolving = {.worker = worker, .since = asked->second};
  state_.deadlines.Set({.kind = DueKind::kDatasetResolve, .dataset = dataset.id},
                       now + state_.options.resolve_timeout);
}

// The one that was asked may hang in its file system, or have much to count.
void Dispatcher::Impl::ResolveIsLate(Time now, DatasetId id, Effects& out) {
  Dataset* dataset = FindDataset(id);
  const auto resolving = state_.resolving.find(id);
  if (resolving == state_.resolving.end()) return;
  const auto [worker_id, since] = resolving->second;
  state_.resolving.erase(resolving);
  const Worker* worker = state_.workers.Find(worker_id);
  if (dataset == nullptr || worker == nullptr || !NeedsResolving(*dataset)) return;
  out.Tell(Severity::kWarning,
           absl::StrCat("the worker at ", worker->address, " lists the files of dataset ",
                        dataset->name, " for ", absl::FormatDuration(now - since),
                        " now (resolve_timeout): another one is asked too, if there is one"));
  // Where all are late they are asked in turn again: one that was busy may be free.
  if (dataset->resolve_late.size() + 1 >= state_.workers.size()) dataset->resolve_late.clear();
  dataset->resolve_late.insert(worker_id);
  state_.workers.TouchAll();
}

// It does not list them any more.
void Dispatcher::Impl::ForgetResolver(Dataset& dataset, WorkerId worker) {
  dataset.resolve_asked.erase(worker);
  dataset.resolve_late.erase(worker);
  const auto resolving = state_.resolving.find(dataset.id);
  if (resolving == state_.resolving.end() || resolving->second.worker != worker) return;
  state_.resolving.erase(resolving);
}

void Dispatcher::Impl::ForgetResolving(Dataset& dataset) {
  state_.deadlines.Clear({.kind = DueKind::kDatasetResolve, .dataset = dataset.id});
  state_.resolving.erase(dataset.id);
  dataset.resolve_asked.clear();
  dataset.resolve_late.clear();
  dataset.resolve_tries.clear();
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
    if (elsewhere && tries < state_.options.segment_tries) {
      ForgetResolver(*dataset, worker);
      return state_.workers.TouchAll();
    }
    ForgetResolving(*dataset);
    return FailIterations(now, dataset->id, report.error, out);
  }
  if (report.manifest.size() > state_.options.manifest_bytes_max) {
    return FailIterations(now, dataset->id,
                          LimitReached(absl::StrCat(
                              "the list of the ", report.files, " files of dataset ", dataset->name,
                              " has ", report.manifest.size(), " bytes (manifest_bytes_max)")),
                          out);
  }
  Commit(now, record::DatasetResolved{.dataset = dataset->id, .manifest = report.manifest}, out);
  out.Tell(Severity::kInfo,
           absl::StrCat("dataset ", dataset->name, " has ", report.files, " files"));
  StartIterations(now, *dataset, out);
}

}  // namespace lockstep::dispatch

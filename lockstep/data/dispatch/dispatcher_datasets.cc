// Datasets: by identity, their plans, and who lists their files.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/data/dispatch/dispatcher_impl.h"

namespace lockstep::dispatch {

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
  // Before the limit: what is registered already adds nothing.
  if (const Dataset* const found = datasets_.FindRegistered(request.name, request.identity)) {
    const Dataset& known = *found;
    // The same name for another definition: its readers would not read what they registered.
    if (known.identity != request.identity) {
      return out.Fail(
          request.call,
          MakeError(absl::StatusCode::kInvalidArgument, reason::kDatasetDiffers,
                    absl::StrCat("dataset ", known.name, " is another one: identity ",
                                 known.identity, " there and ", request.identity, " here")));
    }
    // It is wanted again: the time until it is forgotten begins anew.
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
  out.Succeed(request.call, DatasetRegistered{.dataset = id, .name = datasets_.Find(id)->name});
}

void Dispatcher::Impl::On(Time /*now*/, const GetDataset& request, Effects& out) {
  // One that is retired is found by its id alone.
  const bool by_name = request.dataset == DatasetId();
  const Dataset* const dataset =
      by_name ? datasets_.FindNamed(request.name) : datasets_.Find(request.dataset);
  if (dataset == nullptr) {
    return out.Fail(
        request.call,
        MakeError(absl::StatusCode::kNotFound, reason::kDatasetUnknown,
                  absl::StrCat("there is no dataset ",
                               by_name ? request.name : absl::StrCat(request.dataset.value()))));
  }
  out.Succeed(request.call, DatasetGiven{.dataset = dataset->id,
                                         .name = dataset->name,
                                         .identity = dataset->identity,
                                         .definition = dataset->definition,
                                         .element_spec = dataset->element_spec,
                                         .needs_manifest = dataset->needs_manifest,
                                         .resolved = dataset->ready(),
                                         .manifest = dataset->manifest});
}

void Dispatcher::Impl::SetDatasetIdle(Time now, DatasetId id) {
  const Due due{.kind = DueKind::kDatasetIdle, .dataset = id};
  if (iterations_.CountOf(id) > 0) return state_.deadlines.Clear(due);
  state_.deadlines.Set(due, now + state_.options.dataset_timeout);
}

// Those that wait for the dataset, if it is ready.
void Dispatcher::Impl::StartIterations(Time now, DatasetId id, Effects& out) {
  if (!iterations_.AnyResolving(id)) return;
  LOCKSTEP_DCHECK(datasets_.Find(id) != nullptr);
  // Its files are not listed: one of the workers is asked with its next orders.
  if (!datasets_.Find(id)->ready()) return state_.workers.TouchAll();
  ErrorPtr why;
  const std::shared_ptr<const Shape> shape = datasets_.ShapeOf(id, why);
  if (shape == nullptr) return FailIterations(now, id, why, out);
  for (const auto& [iteration_id, iteration] : iterations_.all()) {
    if (iteration->spec().dataset != id) continue;
    iteration->Start(now, shape, out);
    state_.touched.insert(iteration_id);
  }
  state_.workers.TouchAll();
}

void Dispatcher::Impl::FailIterations(Time now, DatasetId id, const ErrorPtr& error, Effects& out) {
  // To end without an error is to finish.
  LOCKSTEP_DCHECK(error != nullptr);
  for (const auto& [iteration_id, iteration] : iterations_.all()) {
    // Those that read already have their shape, which this does not concern.
    if (iteration->spec().dataset != id || iteration->phase() != Phase::kResolving) continue;
    iteration->End(now, error, out);
    state_.touched.insert(iteration_id);
  }
}

bool Dispatcher::Impl::NeedsResolving(DatasetId id) const {
  const Dataset* const dataset = datasets_.Find(id);
  return dataset != nullptr && !dataset->ready() && iterations_.AnyResolving(id);
}

// The one that was asked may hang in its file system, or have much to count.
void Dispatcher::Impl::ResolveIsLate(Time now, DatasetId id, Effects& out) {
  const std::optional<Resolving> late = listing_.TakeLate(id);
  if (!late) return;
  const Worker* const worker = state_.workers.Find(late->worker);
  // It is gone, so another one was chosen; or nobody wants the files any more.
  if (worker == nullptr || !NeedsResolving(id)) return;
  out.Tell(Severity::kWarning,
           absl::StrCat("the worker at ", worker->address, " lists the files of dataset ",
                        datasets_.Find(id)->name, " for ", absl::FormatDuration(now - late->since),
                        " now (resolve_timeout): another one is asked too, if there is one"));
  listing_.NoteLate(id, late->worker);
  state_.workers.TouchAll();
}

void Dispatcher::Impl::TakeResolved(Time now, WorkerId worker, const ResolveReport& report,
                                    Effects& out) {
  // Another worker was faster, or nobody wants it any more.
  const DatasetId id = report.dataset;
  if (!NeedsResolving(id)) return;
  if (report.error != nullptr) {
    // Only what lies with the worker is tried elsewhere: what is wrong with the files is wrong for
    // all.
    const bool elsewhere = report.error->code == absl::StatusCode::kUnavailable ||
                           report.error->code == absl::StatusCode::kCancelled;
    const int32_t tries = listing_.NoteFailure(id, worker);
    if (elsewhere && tries < state_.options.segment_tries) {
      listing_.ForgetAsked(id, worker);
      return state_.workers.TouchAll();
    }
    // Whoever opens it again has the files listed anew.
    listing_.Forget(id);
    return FailIterations(now, id, report.error, out);
  }
  const std::string name = datasets_.Find(id)->name;
  // Before it is recorded: no other worker would bring a shorter one.
  if (report.manifest.size() > state_.options.manifest_bytes_max) {
    return FailIterations(
        now, id,
        LimitReached(absl::StrCat("the list of the ", report.files, " files of dataset ", name,
                                  " has ", report.manifest.size(), " bytes (manifest_bytes_max)")),
        out);
  }
  Commit(now, record::DatasetResolved{.dataset = id, .manifest = report.manifest}, out);
  out.Tell(Severity::kInfo, absl::StrCat("dataset ", name, " has ", report.files, " files"));
  StartIterations(now, id, out);
}

}  // namespace lockstep::dispatch

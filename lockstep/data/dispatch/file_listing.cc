#include "lockstep/data/dispatch/file_listing.h"

#include "lockstep/base/check.h"

namespace lockstep::dispatch {

WorkerId FileListing::Choose(DatasetId dataset) const {
  WorkerTable::Avoid avoid;
  if (const auto found = asked_.find(dataset); found != asked_.end()) {
    // Those that failed or are late are asked again where nobody else is left.
    for (const auto& [worker, count] : found->second.failures) avoid[worker] = Time::Infinite();
    for (const WorkerId worker : found->second.late) avoid[worker] = Time::Infinite();
  }
  // By key: the same worker for as long as it is there, however often this is asked.
  return state_.workers.ForKey(static_cast<uint64_t>(dataset.value()), avoid);
}

void FileListing::Ask(Time now, DatasetId dataset, WorkerId worker) {
  // 0 stands for nobody.
  LOCKSTEP_DCHECK(worker != WorkerId());
  Resolving& resolving = state_.resolving[dataset];
  // Its time counts from the first asking, not from its latest poll.
  if (resolving.worker == worker) return;
  const auto [since, first] = asked_[dataset].since.emplace(worker, now);
  LOCKSTEP_DCHECK(since->second <= now);
  resolving = {.worker = worker, .since = since->second};
  // The deadline counts from this asking: one that was late before has its full time again.
  state_.deadlines.Set({.kind = DueKind::kDatasetResolve, .dataset = dataset},
                       now + state_.options.resolve_timeout);
}

int32_t FileListing::NoteFailure(DatasetId dataset, WorkerId worker) {
  return ++asked_[dataset].failures[worker];
}

std::optional<Resolving> FileListing::TakeLate(DatasetId dataset) {
  const auto found = state_.resolving.find(dataset);
  if (found == state_.resolving.end()) return std::nullopt;
  const Resolving late = found->second;
  // Taken out, so that `Ask` sets a new deadline even where the same worker is asked.
  state_.resolving.erase(found);
  return late;
}

void FileListing::NoteLate(DatasetId dataset, WorkerId worker) {
  LOCKSTEP_DCHECK(state_.workers.Find(worker) != nullptr);
  std::set<WorkerId>& late = asked_[dataset].late;
  // Where all are late they are asked in turn again: one that was busy may be free.
  if (late.size() + 1 >= state_.workers.size()) late.clear();
  late.insert(worker);
  // Of those that are there: `ForgetWorker` takes out the others.
  LOCKSTEP_DCHECK(late.size() <= state_.workers.size());
}

void FileListing::ForgetAsked(DatasetId dataset, WorkerId worker) {
  if (const auto found = asked_.find(dataset); found != asked_.end()) {
    found->second.since.erase(worker);
    found->second.late.erase(worker);
  }
  const auto resolving = state_.resolving.find(dataset);
  // Another one may have been asked since.
  if (resolving == state_.resolving.end() || resolving->second.worker != worker) return;
  state_.resolving.erase(resolving);
}

void FileListing::ForgetWorker(WorkerId worker) {
  for (auto& [dataset, asked] : asked_) {
    // If its process comes back, it is another worker, of which nothing is known.
    asked.failures.erase(worker);
    ForgetAsked(dataset, worker);
  }
}

void FileListing::Forget(DatasetId dataset) {
  state_.deadlines.Clear({.kind = DueKind::kDatasetResolve, .dataset = dataset});
  state_.resolving.erase(dataset);
  asked_.erase(dataset);
}

}  // namespace lockstep::dispatch

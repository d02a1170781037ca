#include "lockstep/data/dispatch/worker_choice.h"

#include <algorithm>
#include <limits>

#include "lockstep/base/check.h"

namespace lockstep::dispatch {

WorkerId WorkerChoice::OwnerOf(TaskId task) const {
  const auto found = owners_.find(task);
  return found == owners_.end() ? WorkerId() : found->second;
}

bool WorkerChoice::OwnsTask(WorkerId worker) const {
  return std::any_of(owners_.begin(), owners_.end(),
                     [&](const auto& entry) { return entry.second == worker; });
}

// Whoever stands in for the owner is the same for all who ask.
WorkerId WorkerChoice::ForTask(TaskId task, const WorkerTable::Avoid& avoid) const {
  const WorkerId owner = OwnerOf(task);
  if (workers_.IsGood(owner, avoid)) return owner;
  return workers_.ForKey(static_cast<uint64_t>(task.value()), avoid);
}

WorkerId WorkerChoice::OfGrant(LaneId lane, int64_t seq) const {
  const auto found = chosen_.find({lane, seq});
  return found == chosen_.end() ? WorkerId() : found->second;
}

void WorkerChoice::Choose(LaneId lane, int64_t seq, WorkerId worker) {
  const WorkerId before = OfGrant(lane, seq);
  if (before == worker) return;
  // Only of workers that are there: another one's load would count for nobody.
  LOCKSTEP_DCHECK(before == WorkerId() || workers_.Find(before) != nullptr);
  LOCKSTEP_DCHECK(worker == WorkerId() || workers_.Find(worker) != nullptr);
  // The loads follow at once: whoever is chosen next is chosen by them.
  if (Worker* former = workers_.Find(before); former != nullptr) --former->load;
  if (Worker* next = workers_.Find(worker); next != nullptr) ++next->load;
  if (worker == WorkerId()) {
    chosen_.erase({lane, seq});
  } else {
    chosen_[{lane, seq}] = worker;
  }
}

void WorkerChoice::ReleaseLane(LaneId lane) {
  auto next = chosen_.lower_bound({lane, std::numeric_limits<int64_t>::min()});
  while (next != chosen_.end() && next->first.first == lane) {
    if (Worker* former = workers_.Find(next->second); former != nullptr) --former->load;
    next = chosen_.erase(next);
  }
}

int32_t WorkerChoice::NoteFailure(int64_t segment, WorkerId worker) {
  std::map<WorkerId, int32_t>& by_worker = failures_[segment];
  ++by_worker[worker];
  // Of all workers together: it is the segment that fails.
  int32_t tries = 0;
  for (const auto& [id, count] : by_worker) tries += count;
  return tries;
}

// Those that failed at the segment, for everybody; those that this consumer cannot reach, for it.
WorkerTable::Avoid WorkerChoice::AvoidFor(const WorkerTable::Avoid& own, int64_t segment) const {
  WorkerTable::Avoid avoid = own;
  if (const auto failed = failures_.find(segment); failed != failures_.end()) {
    for (const auto& [worker, count] : failed->second) avoid[worker] = Time::Infinite();
  }
  // One that failed may do better; one that cannot be reached does nothing.
  const auto& all = workers_.all();
  const bool some = std::any_of(all.begin(), all.end(),
                                [&](const auto& entry) { return avoid.count(entry.first) == 0; });
  return some ? avoid : own;
}

const std::map<WorkerId, int32_t>* WorkerChoice::FailuresOf(int64_t segment) const {
  const auto found = failures_.find(segment);
  return found == failures_.end() ? nullptr : &found->second;
}

void WorkerChoice::ForgetWorker(WorkerId worker) {
  // Gone from the table first, so that nothing chooses it again.
  LOCKSTEP_DCHECK(workers_.Find(worker) == nullptr);
  shares_.erase(worker);
  for (auto& [task, owner] : owners_) {
    if (owner == worker) owner = WorkerId();
  }
  // Its load has gone with it.
  for (auto next = chosen_.begin(); next != chosen_.end();) {
    next = next->second == worker ? chosen_.erase(next) : std::next(next);
  }
}

void WorkerChoice::End(bool tasks_stay) {
  // The workers stay, without the load that they had of this iteration.
  for (const auto& [grant, worker] : chosen_) {
    if (Worker* former = workers_.Find(worker); former != nullptr) --former->load;
  }
  chosen_.clear();
  shares_.clear();
  // If it is read again, all workers may try again.
  failures_.clear();
  if (!tasks_stay) owners_.clear();
}

WorkerTurns::WorkerTurns(const WorkerChoice& choice, const WorkerTable::Avoid& own)
    : choice_(choice) {
  all_.reserve(choice.workers().size());
  for (const auto& [id, worker] : choice.workers().all()) {
    all_.push_back(id);
    if (own.count(id) == 0) good_.push_back(id);
  }
}

WorkerId WorkerTurns::ForSegment(int64_t segment, WorkerId worker, int64_t n) const {
  LOCKSTEP_DCHECK(n >= 0);
  // Where all are to be avoided, any of them is better than none.
  if (good_.empty()) return Nth(n);
  // Where in `good_` those stand that failed: few, since a segment that fails often is given up.
  std::vector<size_t> failed;
  if (const auto* const failures = choice_.FailuresOf(segment); failures != nullptr) {
    for (const auto& [id, count] : *failures) {
      const auto at = std::lower_bound(good_.begin(), good_.end(), id);
      if (at != good_.end() && *at == id) failed.push_back(static_cast<size_t>(at - good_.begin()));
    }
  }
  // Where there is no other, one that failed may do better.
  if (failed.size() == good_.size()) failed.clear();
  const auto at = std::lower_bound(good_.begin(), good_.end(), worker);
  if (at != good_.end() && *at == worker &&
      std::count(failed.begin(), failed.end(), static_cast<size_t>(at - good_.begin())) == 0) {
    return worker;
  }
  size_t nth = static_cast<size_t>(n) % (good_.size() - failed.size());
  for (const size_t without : failed) {
    if (without <= nth) ++nth;
  }
  return good_[nth];
}

}  // namespace lockstep::dispatch

#include "lockstep/data/dispatch/task_table.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::dispatch {

const TaskState* TaskTable::Find(TaskId id) const {
  const auto found = tasks_.find(id);
  return found == tasks_.end() ? nullptr : &found->second;
}

const Pool* TaskTable::shared_pool() const { return per_task() ? nullptr : PoolOf(TaskId()); }

const Pool* TaskTable::PoolOf(TaskId task) const {
  const auto found = pools_.find(KeyOf(task));
  return found == pools_.end() ? nullptr : &found->second;
}

Pool* TaskTable::MutablePool(TaskId task) {
  const auto found = pools_.find(KeyOf(task));
  return found == pools_.end() ? nullptr : &found->second;
}

// Not where there is no pool: then nothing was given at all.
bool TaskTable::AllGiven() const {
  return !pools_.empty() && std::all_of(pools_.begin(), pools_.end(),
                                        [](const auto& entry) { return entry.second.empty(); });
}

void TaskTable::Begin(std::shared_ptr<const Shape> shape) {
  LOCKSTEP_DCHECK(shape != nullptr);
  shape_ = std::move(shape);
  // One that is reopened keeps its pool as it was left.
  if (!per_task()) pools_.try_emplace(TaskId(), shape_, Share{});
}

void TaskTable::Add(TaskId id, TaskState task) {
  if (per_task()) {
    LOCKSTEP_DCHECK(shape_ != nullptr);
    Share share;  // without sharding each task is a whole pass
    if (sharding_ != Sharding::kOff) {
      share = {
          .index = task.share, .count = shares_, .by_file = sharding_ == Sharding::kStaticFile};
    }
    NoteSought(id, pools_.insert_or_assign(id, Pool(shape_, share)).first->second);
  }
  tasks_[id] = std::move(task);
}

bool TaskTable::SetStartingRound(TaskId id, int64_t round) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return false;
  found->second.starting_round = round;
  return true;
}

void TaskTable::Clear() {
  tasks_.clear();
  pools_.clear();
  sought_.clear();
  search_.Clear();
  steps_ = 0;
}

bool TaskTable::Take(TaskId task, SegmentRest rest) {
  Pool* const pool = MutablePool(task);
  // One that is sought already stays so: what came back is given meanwhile.
  const bool noted = pool != nullptr && pool->sought();
  if (pool == nullptr || !pool->Take(rest)) return false;
  if (!noted) NoteSought(task, *pool);
  return true;
}

bool TaskTable::Return(TaskId task, SegmentRest rest) {
  Pool* const pool = MutablePool(task);
  if (pool == nullptr) return false;
  pool->Return(rest);
  return true;
}

bool TaskTable::Restart(TaskId task, int64_t next, const std::vector<SegmentRest>& rests) {
  Pool* const pool = MutablePool(task);
  if (pool == nullptr) return false;
  pool->Begin(next, rests);
  NoteSought(task, *pool);
  return true;
}

void TaskTable::NoteSought(TaskId task, const Pool& pool) {
  if (pool.sought()) sought_.insert(task);
}

int64_t TaskTable::Seek(int64_t steps) {
  const int64_t left = std::exchange(steps_left_, steps);
  SeekOn();
  return left;
}

void TaskTable::SeekOn() {
  if (steps_left_ <= 0) return;
  for (const TaskId task : sought_) {
    const Pool& pool = pools_.at(task);
    // What was taken meanwhile may have been the last.
    if (pool.sought()) search_.Add(task, pool.share().index, pool.next());
  }
  sought_.clear();
  for (; !search_.empty() && steps_left_ > 0; --steps_left_, ++steps_) {
    for (const ShareSearch::Found& found : search_.Step(*shape_, shares_)) {
      pools_.at(found.task).Found(found.segment);
    }
  }
  if (search_.empty()) steps_ = 0;
}

void TaskTable::Snapshot(IterationId iteration, std::vector<Record>& out) const {
  const auto keep_pool = [&](TaskId task, const Pool& pool) {
    out.push_back(record::PoolKept{.iteration = iteration,
                                   .task = task,
                                   .next = pool.next(),
                                   .returned = {pool.returned().begin(), pool.returned().end()}});
  };
  if (const Pool* const shared = shared_pool()) keep_pool(TaskId(), *shared);
  for (const auto& [id, task] : tasks_) {
    out.push_back(record::TaskAdded{.iteration = iteration,
                                    .task = id,
                                    .home = task.home,
                                    .share = task.share,
                                    .starting_round = task.starting_round});
    // A pool comes behind the task that it is of.
    if (per_task()) keep_pool(id, pools_.at(id));
  }
}

bool TaskTable::Holds() const {
  if (!per_task()) return pools_.size() <= 1;
  return pools_.size() == tasks_.size() &&
         std::all_of(tasks_.begin(), tasks_.end(),
                     [&](const auto& entry) { return pools_.count(entry.first) > 0; });
}

}  // namespace lockstep::dispatch

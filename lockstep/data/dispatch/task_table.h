// The tasks of an iteration, and which segments nobody has been given yet. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/iteration_spec.h"
#include "lockstep/data/dispatch/pool.h"
#include "lockstep/data/dispatch/records.h"
#include "lockstep/data/dispatch/shape.h"
#include "lockstep/data/dispatch/share_search.h"

namespace lockstep::dispatch {

// A share of the iteration that one worker makes.
struct TaskState {
  std::string home;  // the address of the worker that it was made for; empty: of none
  int32_t share = -1;
  int64_t starting_round = 0;  // rounds: -1 while it is pending
};

// Owns the tasks and the pools that grants are taken from: one of the iteration, or one of each
// task where segments belong to tasks (`per_task`). Part of the recorded state, so that only
// IterationLedger changes it.
//
// Invariant: with `per_task` each task has a pool, and there is no other. Bounds: a task for each
// worker or share that there ever was (Options.workers_max, shares_max).
class TaskTable {
 public:
  explicit TaskTable(const IterationSpec& spec) : sharding_(spec.sharding), shares_(spec.shares) {}

  // Whether segments belong to tasks.
  bool per_task() const { return sharding_ != Sharding::kDynamic; }
  // By id; also those that no worker has.
  const std::map<TaskId, TaskState>& all() const { return tasks_; }
  // Null: there is no such task.
  const TaskState* Find(TaskId id) const;
  // The iteration's pool; null with `per_task`, and before it begins.
  const Pool* shared_pool() const;
  // Null when there is none. The task does not matter but with `per_task`.
  const Pool* PoolOf(TaskId task) const;
  // Nothing is left in any pool.
  bool AllGiven() const;

  // Segments are known: the shared pool is there, unless there is none or it is there already.
  void Begin(std::shared_ptr<const Shape> shape);
  // Behind `Begin`.
  void Add(TaskId id, TaskState task);
  // False: there is no such task.
  bool SetStartingRound(TaskId id, int64_t round);
  // No task and no pool is left.
  void Clear();
  // False: there is no such pool, or what is taken is not in it.
  bool Take(TaskId task, SegmentRest rest);
  // False: there is no such pool.
  bool Return(TaskId task, SegmentRest rest);
  // The pool gives segments from `next` on, and `rests` before them. False: there is no such pool.
  bool Restart(TaskId task, int64_t next, const std::vector<SegmentRest>& rests);

  // --- By file: the shares' next segments are found, which is recorded by what is given only ---
  // Records are read back without a search, however far it went: whoever lives on makes it.
  bool seeks() const { return !sought_.empty() || !search_.empty(); }  // some are not found yet
  int64_t steps() const { return steps_; }  // made since all were found last
  // Goes on; so many steps may be made from here on, in place of those that are left, which it
  // returns.
  int64_t Seek(int64_t steps);
  // Goes on with the steps that are left.
  void SeekOn();

  // Tasks, each with its pool behind it; the shared pool first.
  void Snapshot(IterationId iteration, std::vector<Record>& out) const;
  bool Holds() const;  // the invariant

 private:
  Pool* MutablePool(TaskId task);
  void NoteSought(TaskId task, const Pool& pool);
  TaskId KeyOf(TaskId task) const { return per_task() ? task : TaskId(); }

  const Sharding sharding_;
  const int32_t shares_;
  std::shared_ptr<const Shape> shape_;
  std::map<TaskId, TaskState> tasks_;
  std::map<TaskId, Pool> pools_;  // 0: the iteration's
  std::set<TaskId> sought_;       // tasks with a pool that is sought and not in the search yet
  ShareSearch search_;
  int64_t steps_left_ = 0;
  int64_t steps_ = 0;
};

}  // namespace lockstep::dispatch

// Who makes what of an iteration. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/worker_table.h"

namespace lockstep::dispatch {

// Remembers which worker does which task, which one makes which grant (first come), and who failed
// at what. Nothing of it is recorded: any worker makes the same of a segment, so that whoever is
// there after a restart is chosen anew.
//
// Invariant: a worker's load counts the grants of all iterations that it is chosen for.
// Bounds: a task for each worker; grants that consumers have not read; segments that failed.
class WorkerChoice {
 public:
  explicit WorkerChoice(WorkerTable& workers) : workers_(workers) {}

  // All that are there, whatever they do here.
  const WorkerTable& workers() const { return workers_; }

  // --- Whether to choose again ---
  void MarkStale() { stale_ = true; }
  bool stale() const { return stale_; }  // whether workers came, went or failed since
  void MarkFresh() { stale_ = false; }   // all was chosen anew

  // --- Tasks ---
  // The worker's task where tasks have no segments of their own.
  const std::map<WorkerId, TaskId>& shares() const { return shares_; }
  // Until it is gone.
  void AddShare(WorkerId worker, TaskId task) { shares_.emplace(worker, task); }
  // 0: the task waits for a worker.
  WorkerId OwnerOf(TaskId task) const;
  void SetOwner(TaskId task, WorkerId worker) { owners_[task] = worker; }  // 0: nobody
  bool OwnsTask(WorkerId worker) const;  // a task of this iteration
  // What its owner is told of the task has changed.
  void TouchOwner(TaskId task) { workers_.Touch(OwnerOf(task)); }
  // The owner, if it is good, or another one that is the same for as long as it is there.
  WorkerId ForTask(TaskId task, const WorkerTable::Avoid& avoid) const;

  // --- Grants. First come ---
  WorkerId OfGrant(LaneId lane, int64_t seq) const;
  // In place of the former one, whose load it takes; 0: nobody.
  void Choose(LaneId lane, int64_t seq, WorkerId worker);
  // Nobody makes it any more.
  void Release(LaneId lane, int64_t seq) { Choose(lane, seq, WorkerId()); }
  // All grants of a lane; see `Release`.
  void ReleaseLane(LaneId lane);
  // Grants with a worker.
  int64_t CountChosen() const { return static_cast<int64_t>(chosen_.size()); }

  // --- Failures ---
  // How often the segment has failed, with this time.
  int32_t NoteFailure(int64_t segment, WorkerId worker);
  void ForgetFailures(int64_t segment) { failures_.erase(segment); }  // somebody has all of it
  // Whom to avoid for the segment, for a consumer that avoids some anyway.
  WorkerTable::Avoid AvoidFor(const WorkerTable::Avoid& own, int64_t segment) const;

  // Which workers failed at the segment, and how often; null: none did.
  const std::map<WorkerId, int32_t>* FailuresOf(int64_t segment) const;

  // It is gone: its tasks have no owner, and its grants no worker.
  void ForgetWorker(WorkerId worker);
  // The iteration is over. `tasks_stay`: it may be read again with the same tasks.
  void End(bool tasks_stay);

 private:
  WorkerTable& workers_;
  bool stale_ = false;
  std::map<WorkerId, TaskId> shares_;
  std::map<TaskId, WorkerId> owners_;
  std::map<std::pair<LaneId, int64_t>, WorkerId> chosen_;
  std::map<int64_t, std::map<WorkerId, int32_t>> failures_;  // by segment
};

// Round and round among the workers, for an answer with thousands of grants: who may be chosen is
// looked up once for all of them. Of the workers as they are when it is made.
class WorkerTurns {
 public:
  // For a consumer that avoids some. What is given outlives it.
  WorkerTurns(const WorkerChoice& choice, const WorkerTable::Avoid& own);

  // The n-th of all; 0: there is none.
  WorkerId Nth(int64_t n) const {
    return all_.empty() ? WorkerId() : all_[static_cast<size_t>(n) % all_.size()];
  }
  // `worker`, if it may be chosen for the segment as `AvoidFor` says; else the n-th of those that
  // may.
  WorkerId ForSegment(int64_t segment, WorkerId worker, int64_t n) const;

 private:
  const WorkerChoice& choice_;
  std::vector<WorkerId> all_;   // by id
  std::vector<WorkerId> good_;  // that the consumer does not avoid
};

}  // namespace lockstep::dispatch

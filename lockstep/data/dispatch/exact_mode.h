// Exact order: element n to consumer n % consumers, as in a local run. Pure.
#pragma once

#include <cstdint>
#include <map>

#include "lockstep/data/dispatch/reading_mode.h"

namespace lockstep::dispatch {

// There is one lane, which is the dataset from the start cursor on, and all read it. Its grants
// follow from their numbers, so that nothing of them is kept or recorded.
//
// Bounds: each consumer is told `exact_window` grants beyond the slowest, or what it needs.
class ExactMode : public ReadingMode {
 public:
  using ReadingMode::ReadingMode;

  // How far it has come, and up to where it needs grants: at most exact_needs_max of them.
  void TakePoll(const ConsumerPoll& poll, ConsumerSession& session, Effects& out) override;
  // One that somebody may be reading: not before the slowest, nor further than a consumer can need.
  bool IsGiven(const SegmentFailure& failure) const override;
  // Only where segments belong to tasks.
  bool RecordsTasks() const override { return ledger().tasks().per_task(); }
  // From the first grant on again: those who come back say where they are.
  void TakeReopened() override;
  void TakeEnded() override { workers_.clear(); }  // nothing is read any more
  // What all have read is forgotten, and all are told of the window that has moved.
  void Settle(Time now, Effects& out) override;
  // Each index has finished, whether or not its consumer is still there.
  bool IsFinished() const override;
  // The grants from where the consumer is to the end of its window, with a worker for each.
  void FillAssignment(const ConsumerSession& session, Assignment& assignment) override;

 private:
  int64_t Segments() const;  // how many grants the lane has in all
  SegmentRest SegmentAt(int64_t seq) const;
  int64_t Slowest() const;  // the first grant that a consumer still needs
  WorkerId WorkerFor(const WorkerTurns& turns, int64_t seq, int64_t segment);

  std::map<int64_t, WorkerId> workers_;  // by grant, from the slowest on
  int64_t turn_ = 0;                     // of the workers
  int64_t slowest_ = 0;
};

}  // namespace lockstep::dispatch

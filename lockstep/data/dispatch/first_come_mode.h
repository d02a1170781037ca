// First come: each segment to the consumer that has room for it. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/dispatch/reading_mode.h"

namespace lockstep::dispatch {

// Each consumer has a lane of its own, which is topped up to a window of grants that it has not
// read. It acknowledges elements; what it has not acknowledged when it is lost goes to others.
//
// Bounds: Options.window, window_max and grants_max for each consumer.
class FirstComeMode : public ReadingMode {
 public:
  using ReadingMode::ReadingMode;

  // Of its own lane, each at most as long as the segment can be; others are ignored.
  void TakeAcks(const std::vector<LaneAck>& acks, ConsumerSession& session, Effects& out) override;
  // What its program has, so that the worker of that may be let go; answers nothing.
  void TakePoll(const ConsumerPoll& poll, ConsumerSession& session, Effects& out) override;
  // A grant of the lane that is not done and is of that segment.
  bool IsGiven(const SegmentFailure& failure) const override;
  // Its grants need no workers any more; they are returned by the record that it is gone.
  void Forget(ConsumerId consumer) override;
  // Only where segments belong to tasks.
  bool RecordsTasks() const override { return ledger().tasks().per_task(); }
  // Gives what there is room for, chooses workers, and says who must acknowledge to get more.
  void Settle(Time now, Effects& out) override;
  // No segment is left in a pool, and no grant in a lane.
  bool IsFinished() const override;
  // What of its own lane its program has not got yet.
  void FillAssignment(const ConsumerSession& session, Assignment& assignment) override;
  // How many grants each consumer has, and whether its program has all of them.
  void FillRow(IterationRow& row) const override;

 private:
  using TasksByGiven = std::set<std::pair<int64_t, TaskId>>;

  static LaneId LaneOf(ConsumerId consumer) { return LaneId(consumer.value()); }
  // Grants that count for the consumer's window.
  static int64_t Unread(const LaneState& lane, const ConsumerSession& session);
  // Its program waits, and has all elements of all grants.
  static bool HasAll(const LaneState& lane, const ConsumerSession& session);
  bool IsFull(const LaneState& lane) const;

  void TopUp(Effects& out);
  // How many grants of each task are not done yet, of those that have segments left.
  TasksByGiven CountGiven() const;
  int64_t Window() const;
  void ChooseWorkers();
  void TellHolders();
  std::string AckNeeded(const LaneState& lane, bool all_wait, size_t holders) const;
};

}  // namespace lockstep::dispatch

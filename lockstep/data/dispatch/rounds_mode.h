// Rounds: in each step all consumers read from the same task. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/dispatch/reading_mode.h"
#include "lockstep/data/dispatch/round_agreement.h"

namespace lockstep::dispatch {

// Each task has a lane, which gives every round one element to each consumer that is seated. Who
// reads, and which tasks are read, changes only from a round on that all have agreed to (Agree).
//
//   lane:  past (kept for who comes back) | grants (somebody may need them) | not given yet
//                                          ^ LaneTrimmed                    ^ Granted
//
// Bounds: Options.lane_window beyond the fastest, rounds_window beyond the slowest consumer,
// seatings_max, rounds_history_max.
class RoundsMode : public ReadingMode {
 public:
  using ReadingMode::ReadingMode;

  // How far it has come, lengths of segments that nobody knew, and whether it stands still.
  void TakePoll(const ConsumerPoll& poll, ConsumerSession& session, Effects& out) override;
  // The last round that it has begun.
  void TakeClose(const CloseConsumer& close, ConsumerSession& session) override;
  // A grant of the lane that is not done and is of that segment.
  bool IsGiven(const SegmentFailure& failure) const override;
  // One that is seated, where the others wait for who is lost.
  bool KeepsPlace(ConsumerId consumer) const override;
  // Of the agreement that is open, if any.
  void Forget(ConsumerId consumer) override { agreement_.Forget(consumer); }
  // What can have been read by now is read: no agreement goes before it.
  void NoteUnsaid() override;
  // Returns what all have read, from `round` on, for it to read again.
  void TakeReplaced(ConsumerSession& session, int64_t round, Effects& out) override;
  bool RecordsTasks() const override { return true; }  // each has a lane, which is recorded
  // Nothing begins before what the records begin with, nor before what can have been read.
  void TakeRestored() override;
  // Nothing is agreed on any more.
  void TakeEnded() override;
  // Agrees, then trims what all have read, then gives what is needed.
  void Settle(Time now, Effects& out) override;
  // Those who are seated have finished; or nothing was left when the first task was to begin.
  bool IsFinished() const override;
  // The lanes from where the consumer is, the seatings, and where to stop for an agreement.
  void FillAssignment(const ConsumerSession& session, Assignment& assignment) override;
  // The latest round, and who is awaited for what.
  void FillRow(IterationRow& row) const override;

 private:
  // What is agreed on: who reads, or that this task is read.
  struct Change {
    bool seats = false;
    TaskId task;
    bool operator==(const Change&) const = default;
  };

  // What a consumer says.
  void TakeProgress(const ConsumerPoll& poll, ConsumerSession& session);
  void TakeCounts(const ConsumerPoll& poll, Effects& out);
  void NoteRound(ConsumerSession& session, int64_t round);

  // Agreeing.
  bool SomebodyQuiet(Time now) const;
  std::optional<Change> NextChange() const;
  void Agree(Time now, Effects& out);
  void CarryOut(const Change& change, int64_t round, Effects& out);

  // Giving.
  void TrimLanes(Effects& out);
  int64_t GrantedUpTo(LaneId id, const LaneState& lane) const;
  void TopUp(Effects& out);
  Lane LaneFor(const ConsumerSession& session, LaneId id, const LaneState& state) const;

  RoundAgreement agreement_;
  std::optional<Change> change_;  // which is being agreed on
  int64_t latest_round_ = -1;     // that anybody said
  // Somebody who says nothing any more may have begun them up to this one.
  int64_t unsaid_round_ = -1;
  int64_t agreed_round_ = 0;  // the last one that something begins with
};

}  // namespace lockstep::dispatch

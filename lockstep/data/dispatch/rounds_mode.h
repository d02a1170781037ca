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

  void TakePoll(const ConsumerPoll& poll, ConsumerSession& session, Effects& out) override;
  void TakeClose(const CloseConsumer& close, ConsumerSession& session) override;
  bool IsGiven(const SegmentFailure& failure) const override;
  bool KeepsPlace(ConsumerId consumer) const override;
  void Forget(ConsumerId consumer) override { agreement_.Forget(consumer); }
  void NoteUnsaid() override;
  void TakeReplaced(ConsumerSession& session, int64_t round, Effects& out) override;
  bool RecordsTasks() const override { return true; }
  void TakeRestored() override;
  void TakeEnded() override;
  void Settle(Time now, Effects& out) override;
  bool IsFinished() const override;
  void FillAssignment(const ConsumerSession& session, Assignment& assignment) override;
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

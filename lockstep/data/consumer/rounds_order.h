// Rounds: in each round one turn of each lane, all consumers reading from the same one. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/data/consumer/lane_progress.h"
#include "lockstep/data/consumer/reading_order.h"
#include "lockstep/data/consumer/turn_table.h"

namespace lockstep::dispatch {

// Walks through the rounds in which this consumer has a seat. Begins none from the round on that
// the dispatcher blocks: there, all agree on who reads. A lane that has no whole turn left takes
// none any more, and the elements of the broken one are dropped.
class RoundsOrder : public ReadingOrder {
 public:
  RoundsOrder(const ConsumerOptions& options, LaneSet& lanes, PollSchedule& polls)
      : options_(options), lanes_(lanes), polls_(polls), needs_(polls) {}

  void Begin(int32_t index) override;
  void TakeAssignment(const Assignment& assignment) override;
  bool IsOver(const LaneReader& lane, const Lane& from) const override;
  void ForgetLane(LaneId lane) override { needs_.Forget(lane); }

  std::vector<LaneWish> Wishes() override;
  Delivery Next(Time now) override;
  void EndStep(bool asked) override;

  Reached reached() const override { return reached_; }
  void FillPoll(ConsumerPoll& poll) const override;
  std::optional<std::string> CursorText(const Assignment& assignment) const override;
  void FillView(ConsumerMachine::View& view) const override;
  std::string WaitsFor() const override;

 private:
  // Where the program is: in this round, behind the turns of all lanes up to `over`.
  struct Place {
    int64_t round = 0;
    LaneId over{-1};
    int64_t turns = 0;  // how many that were
  };
  struct TurnsOver {};
  // `TurnsOver`: of the round that is on, no lane has a turn left.
  using Turn = std::variant<TurnsOver, Nothing, HandOut, Failed>;

  // Whether this consumer has a seat in the round that is on; goes on to the next one that it has.
  bool JumpToSeat();
  Turn TakeTurn();
  // Whether the lane has no turn in the round that is on, which is known now or not at all.
  enum class Has { kTurn, kNoTurn, kNotKnown };
  Has LookForTurn(LaneReader& lane);
  // Goes on to the next round; false: it is not known, or must not begin.
  bool BeginNextRound();
  bool IsAtEnd() const;
  Failed RoundIsOver() const;

  int64_t NextTurn(const LaneReader& lane) const;    // its round
  int64_t NeededFrom(const LaneReader& lane) const;  // position: nothing before it is needed
  LaneProgress Progress(const LaneReader& lane) const;

  const ConsumerOptions& options_;
  LaneSet& lanes_;
  PollSchedule& polls_;
  NeedsReport needs_;
  TurnTable turns_;
  Place at_;
  Reached reached_;
  int64_t skip_turns_ = 0;        // of the round that is on: handed out before the cursor was taken
  std::optional<int64_t> block_;  // no round from this one on begins
  int64_t handed_out_ = 0;
  int64_t dropped_ = 0;
};

}  // namespace lockstep::dispatch

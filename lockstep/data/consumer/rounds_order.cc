#include "lockstep/data/consumer/rounds_order.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::dispatch {

void RoundsOrder::Begin(int32_t /*index*/) {
  if (!start().rejoin) return;
  at_.round = start().rejoin->round;
  skip_turns_ = start().rejoin->place;
  // A round of which it has had turns has begun, so no agreement may go before it.
  reached_.round = skip_turns_ > 0 ? at_.round : at_.round - 1;
  reached_.end = {.round = at_.round, .turns = skip_turns_};
}

void RoundsOrder::TakeAssignment(const Assignment& assignment) {
  turns_.Set(assignment.seatings);
  const std::optional<int64_t> before = std::exchange(block_, assignment.block_round);
  // The others stand still for an agreement: what is said of a block does not wait for other news.
  if (block_ || before) polls_.Urgent();
  // Too late to stop before it: that is what the next poll says.
  if (block_ && *block_ <= reached_.round) block_.reset();
}

bool RoundsOrder::IsOver(const LaneReader& lane, const Lane& from) const {
  return FrontIsRead(lane, from, NeededFrom(lane));
}

int64_t RoundsOrder::NextTurn(const LaneReader& lane) const {
  // Lanes have their turns in the order of their ids.
  const int64_t next = lane.lane <= at_.over ? at_.round + 1 : at_.round;
  return std::max(next, lane.starting_round);
}

int64_t RoundsOrder::NeededFrom(const LaneReader& lane) const {
  // What an ended lane has left is dropped.
  return lane.ended ? kEverything : turns_.Begin(lane, NextTurn(lane));
}

LaneProgress RoundsOrder::Progress(const LaneReader& lane) const {
  const Seating* seating = turns_.At(NextTurn(lane));
  return ProgressOf(lane, NeededFrom(lane), seating == nullptr ? 1 : seating->consumers);
}

std::vector<LaneWish> RoundsOrder::Wishes() {
  std::vector<LaneWish> wishes;
  // Without a seat no element is this consumer's.
  if (reached_.finished || !JumpToSeat()) return wishes;
  const auto wish = [&](LaneReader& lane) {
    const int64_t round = NextTurn(lane);
    const Seating* seat = turns_.SeatAt(round);
    // In that round it has no seat, as far as is known.
    if (seat == nullptr) return;
    wishes.push_back({.lane = &lane,
                      .position = turns_.Begin(lane, round) + seat->index,
                      .stride = seat->consumers,
                      .ahead = seat->consumers - 1 - seat->index,
                      .needed = wishes.empty()});
  };
  // In the order of their turns: first those that are left of this round.
  const auto has_turn = [&](const LaneReader& lane) {
    return lane.lane > at_.over && lane.starting_round <= at_.round;
  };
  for (auto& [id, lane] : lanes_) {
    if (!lane.ended && has_turn(lane)) wish(lane);
  }
  for (auto& [id, lane] : lanes_) {
    if (!lane.ended && !has_turn(lane)) wish(lane);
  }
  return wishes;
}

bool RoundsOrder::JumpToSeat() {
  if (turns_.SeatAt(at_.round) != nullptr) return true;
  const Seating* later = turns_.NextSeat(at_.round);
  if (later == nullptr) return false;
  at_ = {.round = later->first_round};
  // They were of the round that is left.
  skip_turns_ = 0;
  return true;
}

RoundsOrder::Has RoundsOrder::LookForTurn(LaneReader& lane) {
  LOCKSTEP_DCHECK(!lane.ended);
  const int64_t begin = turns_.Begin(lane, at_.round);
  const int64_t end = begin + turns_.At(at_.round)->consumers;
  // The whole turn, not this consumer's element alone: all have the turn, or none has.
  if (end <= lane.KnownTotal()) return Has::kTurn;
  const std::optional<int64_t> total = lane.Total();
  if (!total) return Has::kNotKnown;
  if (end <= *total) return Has::kTurn;
  // Less than a turn is left. All consumers find the same, and none waits for the lane.
  lane.ended = true;
  lane.ended_after = handed_out_;
  dropped_ += std::max<int64_t>(0, *total - begin);
  polls_.Urgent();
  return Has::kNoTurn;
}

RoundsOrder::Turn RoundsOrder::TakeTurn() {
  for (auto& [id, lane] : lanes_) {
    if (id <= at_.over || lane.starting_round > at_.round || lane.ended) continue;
    const Has has = LookForTurn(lane);
    // All consumers take the turns in one order: no lane is passed over that may still have one.
    if (has == Has::kNotKnown) return Nothing{};
    if (has == Has::kNoTurn) continue;
    if (skip_turns_ > 0) {
      // Handed out before the cursor was taken.
      --skip_turns_;
      ++at_.turns;
      at_.over = id;
      continue;
    }
    const int64_t position = turns_.Begin(lane, at_.round) + turns_.At(at_.round)->index;
    LaneSegment* segment = lane.At(position);
    if (segment == nullptr) {
      const bool before = !lane.segments.empty() && lane.segments.front().start &&
                          position < *lane.segments.front().start;
      // The lane begins behind the position: what all have read is trimmed.
      if (before) return RoundIsOver();
      return Nothing{};
    }
    const int64_t index = segment->IndexOf(position);
    if (index < segment->from) return RoundIsOver();
    if (segment->buffer.count(index) == 0) return Nothing{};
    const LaneProgress before = Progress(lane);
    HandOut hand = lanes_.Take(lane, *segment, index, at_.round);
    ++handed_out_;
    at_.over = id;
    ++at_.turns;
    reached_.end = {.round = at_.round, .turns = at_.turns};
    // A grant less is needed: lanes are trimmed, and topped up, by the slowest.
    if (Progress(lane).seq != before.seq) polls_.Urgent();
    return hand;
  }
  return TurnsOver{};
}

Failed RoundsOrder::RoundIsOver() const {
  return {MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                    absl::StrCat("round ", at_.round,
                                 " is over for all: restore all consumers from their cursors"))};
}

Delivery RoundsOrder::Next(Time now) {
  for (;;) {
    if (!JumpToSeat()) return Nothing{};
    // Rounds go forward only.
    LOCKSTEP_DCHECK(reached_.round <= at_.round);
    if (reached_.round < at_.round) {
      if (block_ && at_.round >= *block_) return Nothing{};
      // Noted before its first turn is taken: from here on no agreement goes back before it.
      reached_.round = at_.round;
      polls_.Soon(now);
    }
    Turn turn = TakeTurn();
    if (auto* hand = std::get_if<HandOut>(&turn)) return std::move(*hand);
    if (auto* failed = std::get_if<Failed>(&turn)) return std::move(*failed);
    if (std::holds_alternative<Nothing>(turn)) return Nothing{};
    // Asked only when the round is over: its turns are handed out first.
    if (IsAtEnd()) {
      reached_.finished = true;
      polls_.Urgent();
      return ReadToEnd{};
    }
    if (!BeginNextRound()) return Nothing{};
  }
}

bool RoundsOrder::IsAtEnd() const {
  // Before the first assignment there are no lanes, which is not the end.
  return !lanes_.empty() && std::all_of(lanes_.begin(), lanes_.end(), [](const auto& entry) {
    return entry.second.ended && entry.second.closed;
  });
}

bool RoundsOrder::BeginNextRound() {
  int64_t next = at_.round + 1;
  if (at_.turns == 0) {
    // Nothing is read in this round: the next one is that in which something begins.
    next = kEverything;
    for (const auto& [id, lane] : lanes_) {
      if (!lane.ended && lane.starting_round > at_.round) {
        next = std::min(next, lane.starting_round);
      }
    }
    if (next == kEverything) return false;
  }
  // What is agreed on meanwhile may begin earlier than what is known now.
  if (block_ && next >= *block_) return false;
  LOCKSTEP_DCHECK(next > at_.round);
  at_ = {.round = next};
  return true;
}

void RoundsOrder::EndStep(bool /*asked*/) {
  for (const auto& [id, lane] : lanes_) needs_.Note(lane, Progress(lane));
}

void RoundsOrder::FillPoll(ConsumerPoll& poll) const {
  for (const auto& [id, lane] : lanes_) AddProgress(lane, Progress(lane), poll);
  // None where the block came too late: then the round has begun.
  poll.blocked_round = block_;
}

std::optional<std::string> RoundsOrder::CursorText(const Assignment& assignment) const {
  Cursor cursor{.definition = options_.definition,
                .mode = Mode::kRounds,
                .round = at_.round,
                .place = at_.turns,
                .next = assignment.next_segment};
  for (const auto& [segment, from] : assignment.returned) {
    cursor.rests.push_back({.segment = segment, .from = from});
  }
  for (const auto& [id, lane] : lanes_) {
    // Found to be over in looking for the next element, it is not over for a reader at this place.
    if (lane.ended && lane.ended_after < handed_out_) continue;
    AddRests(lane, turns_.Begin(lane, NextTurn(lane)), cursor);
  }
  Normalize(cursor);
  return EncodeCursor(cursor);
}

void RoundsOrder::FillView(ConsumerMachine::View& view) const { view.dropped = dropped_; }

std::string RoundsOrder::WaitsFor() const {
  // Before the first seating is agreed on, nobody knows what a turn is.
  if (turns_.At(at_.round) == nullptr) return "the other consumers";
  if (block_ && at_.round >= *block_ && reached_.round < at_.round) {
    return absl::StrCat("all consumers to agree on round ", *block_);
  }
  return "";
}

}  // namespace lockstep::dispatch

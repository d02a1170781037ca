#include "lockstep/data/consumer/exact_order.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::dispatch {

void ExactOrder::Begin(int32_t index) {
  index_ = index;
  position_ = index;
  if (start().rejoin) {
    // Positions count from where the iteration begins, cursors from where the dataset does.
    position_ = start().rejoin->elements - start().begin.elements + index_;
  }
}

int64_t ExactOrder::PlaceSegment() const {
  LOCKSTEP_DCHECK(start().rejoin.has_value());
  const Cursor& rejoin = *start().rejoin;
  return rejoin.rests.empty() ? rejoin.next : rejoin.rests.front().segment;
}

// Which of the grants holds the place it learns from any of them: the iteration may begin at
// another cursor of the same place than its own.
bool ExactOrder::HoldsPlace(const Lane& from) {
  if (!searches()) return true;
  if (!from.grants.empty()) {
    const Grant& last = from.grants.back();
    // A guess, as if segments followed one another. The poll names it, and the grants that come for
    // that show whether it was right.
    search_.seq = std::max<int64_t>(0, last.seq + PlaceSegment() - last.segment);
    search_.found = last.segment >= PlaceSegment();
  }
  // Otherwise it is the end.
  search_.found = search_.found || from.closed;
  // The dispatcher answers with grants from the guessed one on.
  if (!search_.found) polls_.Urgent();
  return search_.found;
}

bool ExactOrder::PlaceFirst(const Lane& from, const Grant& grant, LaneSegment& segment) const {
  if (!start().rejoin) return ReadingOrder::PlaceFirst(from, grant, segment);
  // Nothing before the place is needed, and where it starts would not be known.
  if (grant.segment < PlaceSegment()) return false;
  // Of the lane it is only known where the cursor points to.
  const Cursor& rejoin = *start().rejoin;
  int64_t element = 0;
  if (!rejoin.rests.empty() && rejoin.rests.front().segment == grant.segment) {
    element = rejoin.rests.front().from;
  }
  segment.start =
      rejoin.elements - start().begin.elements - std::max<int64_t>(0, element - grant.from);
  return true;
}

bool ExactOrder::IsOver(const LaneReader& lane, const Lane& from) const {
  return FrontIsRead(lane, from, NeededFrom());
}

std::vector<LaneWish> ExactOrder::Wishes() {
  std::vector<LaneWish> wishes;
  // Reads ahead would bring what nobody takes.
  if (end_) return wishes;
  for (auto& [id, lane] : lanes_) {
    wishes.push_back({.lane = &lane, .position = position_, .stride = options_.spec.consumers});
  }
  return wishes;
}

Delivery ExactOrder::Next(Time now) {
  if (lanes_.empty()) return Nothing{};
  // There is one lane.
  LaneReader& lane = lanes_.begin()->second;
  const LaneProgress before = Progress(lane);
  LaneSegment* segment = lane.At(position_);
  if (segment == nullptr) {
    const std::optional<int64_t> total = lane.Total();
    // The end is known only when the lane is closed and all counts are known.
    if (!total || position_ < *total) return Nothing{};
    // As `ReadingPlace` counts: from the beginning of the dataset, not of this iteration.
    end_ = ReadingPlace{.elements = start().begin.elements + *total};
    polls_.Urgent();
    return ReadToEnd{};
  }
  const int64_t index = segment->IndexOf(position_);
  // Asked for, and not here yet: nothing behind it may be handed out before.
  if (segment->buffer.count(index) == 0) return Nothing{};
  HandOut hand = lanes_.Take(lane, *segment, index, -1);
  position_ += options_.spec.consumers;
  // A segment less is needed: the window may move on.
  if (Progress(lane).seq != before.seq) polls_.Urgent();
  polls_.Soon(now);
  return hand;
}

// From the turn of all consumers, which is the place that cursors name.
int64_t ExactOrder::NeededFrom() const { return end_ ? kEverything : position_ - index_; }

LaneProgress ExactOrder::Progress(const LaneReader& lane) const {
  return ProgressOf(lane, NeededFrom(), options_.spec.consumers);
}

void ExactOrder::EndStep(bool /*asked*/) {
  for (const auto& [id, lane] : lanes_) needs_.Note(lane, Progress(lane));
}

Reached ExactOrder::reached() const {
  return {.finished = end_.has_value(), .end = end_.value_or(ReadingPlace{})};
}

void ExactOrder::FillPoll(ConsumerPoll& poll) const {
  if (searches()) {
    // What it needs is the grant that may hold its place; without a guess, any.
    if (search_.seq >= 0) poll.progress.push_back({.seq = search_.seq, .needs = search_.seq + 1});
    return;
  }
  for (const auto& [id, lane] : lanes_) AddProgress(lane, Progress(lane), poll);
  // It has read nothing: the window must not move on without it.
  if (lanes_.empty()) poll.progress.push_back({});
}

std::optional<std::string> ExactOrder::CursorText(const Assignment& assignment) const {
  // Its place is not found yet, so it still is where it came in.
  if (searches()) return options_.rejoin;
  Cursor cursor{.definition = options_.definition,
                .mode = Mode::kExact,
                .elements = start().begin.elements + position_ - index_,
                .next = assignment.next_segment};
  for (const auto& [segment, from] : assignment.returned) {
    cursor.rests.push_back({.segment = segment, .from = from});
  }
  const int64_t needed = NeededFrom();
  for (const auto& [id, lane] : lanes_) {
    // The window of the dispatcher's latest answer may be smaller than an earlier one.
    cursor.next = std::max(cursor.next, lane.last_segment + 1);
    AddRests(lane, needed, cursor);
    // The place is in a segment that has not been granted yet.
    if (lane.closed) continue;
    const int64_t end =
        lane.segments.empty() ? lane.begin : lane.segments.back().End().value_or(needed);
    if (end < needed) cursor.rests.push_back({.segment = cursor.next++, .from = needed - end});
  }
  Normalize(cursor);
  return EncodeCursor(cursor);
}

}  // namespace lockstep::dispatch

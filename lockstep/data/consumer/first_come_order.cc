#include "lockstep/data/consumer/first_come_order.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::dispatch {

namespace {

// Of one poll; more follow in the next one, so that no poll is long.
constexpr size_t kAcksOfPoll = 1024;

}  // namespace

void FirstComeOrder::TakeAssignment(const Assignment& assignment) {
  rest_is_own_ = assignment.rest_is_own;
  ack_needed_ = assignment.ack_needed;
}

bool FirstComeOrder::IsOver(const LaneReader& lane, const Lane& from) const {
  LOCKSTEP_DCHECK(!lane.segments.empty());
  const LaneSegment& front = lane.segments.front();
  if (!front.AllAcked()) return false;
  // Every poll says the acknowledgement again, until the dispatcher counts the grant as done.
  // What is not listed any more, is needed by nobody.
  if (from.done_before >= 0) return front.seq < from.done_before;
  return from.grants.empty() || front.seq < from.grants.front().seq;
}

void FirstComeOrder::LanesTaken() {
  // The rest of the acknowledgements that did not fit in one poll.
  if (AcksUpTo(kAcksOfPoll + 1).size() > kAcksOfPoll) polls_.Urgent();
}

std::vector<LaneWish> FirstComeOrder::Wishes() {
  std::vector<LaneWish> wishes;
  for (auto& [id, lane] : lanes_) wishes.push_back({.lane = &lane});
  return wishes;
}

Delivery FirstComeOrder::Next(Time /*now*/) {
  // First: counts that came meanwhile may have ended the segments in front.
  for (auto& [id, lane] : lanes_) SkipHanded(lane);
  // The end before a refusal: a program that holds all there is need not acknowledge to learn it.
  if (HasAllThereIs()) return ReadToEnd{};
  if (ErrorPtr why = WhyAcknowledgeFirst(); why != nullptr) return Refused{std::move(why)};
  for (auto& [id, lane] : lanes_) {
    if (lane.passed == lane.segments.size()) continue;
    LaneSegment& segment = lane.segments[lane.passed];
    // Each lane has an order of its own: another one may have its next element.
    if (segment.buffer.count(segment.handed) == 0) continue;
    HandOut hand = lanes_.Take(lane, segment, segment.handed, -1);
    if (by_hand()) {
      segment.held_bytes.push_back(hand.element.bytes);
      ++held_.elements;
      held_.bytes += hand.element.bytes;
    }
    // It may have been the last of its segment.
    SkipHanded(lane);
    return hand;
  }
  return Nothing{};
}

void FirstComeOrder::EndStep(bool asked) {
  if (!by_hand()) return;
  // Told of the end, the program does not ask again.
  const bool has_all = asked ? lanes_.AllPassed() : HasAllThereIs();
  // Others may wait for what this program holds.
  if (has_all != std::exchange(told_has_all_, has_all)) polls_.Urgent();
}

void FirstComeOrder::AcknowledgeHanded(Time now) {
  for (auto& [id, lane] : lanes_) {
    for (LaneSegment& segment : lane.segments) NoteAcked(now, segment, segment.handed);
  }
}

bool FirstComeOrder::Acknowledge(Time now, const ElementPlace& place) {
  LaneReader* lane = lanes_.Find(place.lane);
  if (lane == nullptr) return false;
  for (LaneSegment& segment : lane->segments) {
    // Acknowledged up to there: all of the segments before it, and of those behind it nothing.
    if (segment.seq > place.seq) break;
    const bool whole = segment.seq < place.seq;
    NoteAcked(now, segment, whole ? segment.handed : std::min(segment.handed, place.element + 1));
  }
  return true;
}

void FirstComeOrder::NoteAcked(Time now, LaneSegment& segment, int64_t elements) {
  // Nothing is acknowledged that was not handed out.
  LOCKSTEP_DCHECK(elements <= segment.handed);
  if (elements <= segment.acked) return;
  for (int64_t i = segment.acked; i < elements && !segment.held_bytes.empty(); ++i) {
    LOCKSTEP_DCHECK(held_.elements > 0 && held_.bytes >= segment.held_bytes.front());
    --held_.elements;
    held_.bytes -= segment.held_bytes.front();
    segment.held_bytes.pop_front();
  }
  segment.acked = elements;
  // Said of what was held until now.
  ack_needed_.clear();
  // What ends a grant makes room for the next one.
  if (segment.AllAcked()) {
    polls_.Urgent();
  } else {
    polls_.Soon(now);
  }
}

std::vector<LaneAck> FirstComeOrder::Acks() const {
  return AcksUpTo(std::numeric_limits<size_t>::max());
}

std::vector<LaneAck> FirstComeOrder::AcksUpTo(size_t most) const {
  std::vector<LaneAck> acks;
  for (const auto& [id, lane] : lanes_) {
    for (const LaneSegment& segment : lane.segments) {
      const bool done = segment.AllAcked();
      // Nothing of it yet; but one without elements is done as soon as its count is known.
      if (segment.acked <= segment.from && !done) continue;
      if (acks.size() >= most) return acks;
      acks.push_back({.lane = id, .seq = segment.seq, .elements = segment.acked, .done = done});
    }
  }
  return acks;
}

void FirstComeOrder::FillPoll(ConsumerPoll& poll) const {
  poll.acks = AcksUpTo(kAcksOfPoll);
  if (!by_hand()) return;
  for (const auto& [id, lane] : lanes_) {
    // Of the one lane that a consumer has.
    const bool all = lane.passed == lane.segments.size();
    poll.handed_before = all ? lane.next_seq : lane.segments[lane.passed].seq;
  }
  poll.unacknowledged = held_.elements;
  poll.unacknowledged_bytes = held_.bytes;
  poll.has_all = told_has_all_;
}

void FirstComeOrder::SkipHanded(LaneReader& lane) {
  const size_t before = lane.passed;
  LOCKSTEP_DCHECK(before <= lane.segments.size());
  while (lane.passed < lane.segments.size() && lane.segments[lane.passed].AllHanded()) {
    ++lane.passed;
  }
  // Held by the program, they make room for other grants.
  if (by_hand() && lane.passed > before) polls_.Urgent();
}

bool FirstComeOrder::HasAllThereIs() const {
  return by_hand() && rest_is_own_ && lanes_.AllPassed();
}

ErrorPtr FirstComeOrder::WhyAcknowledgeFirst() const {
  // A program that holds nothing could acknowledge nothing, and would never get on.
  if (!by_hand() || held_.elements == 0) return nullptr;
  std::string limit;
  if (held_.elements >= options_.unacknowledged_max) {
    limit = absl::StrCat("unacknowledged_max, which is ", options_.unacknowledged_max);
  } else if (held_.bytes >= options_.unacknowledged_bytes_max) {
    limit = absl::StrCat("unacknowledged_bytes_max, which is ", options_.unacknowledged_bytes_max);
  } else if (!ack_needed_.empty() && lanes_.AllPassed()) {
    limit = ack_needed_;
  }
  if (limit.empty()) return nullptr;
  return MakeError(
      absl::StatusCode::kFailedPrecondition, reason::kAckNeeded,
      absl::StrCat("this reader holds ", held_.elements, " elements that it has not acknowledged (",
                   held_.bytes, " bytes), and gets no more before it acknowledges some: ", limit));
}

void FirstComeOrder::FillView(ConsumerMachine::View& view) const {
  view.unacknowledged = held_.elements;
  view.unacknowledged_bytes = held_.bytes;
}

std::string FirstComeOrder::WaitsFor() const {
  // It waits for elements of its segments, as any reader does.
  if (held_.elements == 0 || !lanes_.AllPassed()) return "";
  return absl::StrCat("a segment, or others to acknowledge; holds ", held_.elements,
                      " elements that it has not acknowledged itself");
}

}  // namespace lockstep::dispatch

// What the program has acknowledged, and what it holds that it has not.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lockstep/data/consumer/consumer_impl.h"

namespace lockstep::dispatch {

namespace {

// Of one poll; more follow in the next one, so that no poll is long.
constexpr size_t kAcksOfPoll = 1024;

}  // namespace

void ConsumerMachine::Impl::AcknowledgeHanded(Time now) {
  if (!first_come()) return;
  for (auto& [id, lane] : lanes_) {
    for (LaneSegment& segment : lane.segments) NoteAcked(now, segment, segment.handed);
  }
}

void ConsumerMachine::Impl::Acknowledge(Time now, const ElementPlace& place, ConsumerEffects& out) {
  const auto found = lanes_.find(place.lane);
  if (!first_come() || found == lanes_.end()) return;
  for (LaneSegment& segment : found->second.segments) {
    if (segment.seq > place.seq) break;
    const bool whole = segment.seq < place.seq;
    NoteAcked(now, segment, whole ? segment.handed : std::min(segment.handed, place.element + 1));
  }
  Advance(now, out);
}

void ConsumerMachine::Impl::NoteAcked(Time now, LaneSegment& segment, int64_t elements) {
  if (elements <= segment.acked) return;
  for (int64_t i = segment.acked; i < elements && !segment.held_bytes.empty(); ++i) {
    --unacknowledged_;
    unacknowledged_bytes_ -= segment.held_bytes.front();
    segment.held_bytes.pop_front();
  }
  segment.acked = elements;
  // Said of what was held until now.
  if (assignment_) assignment_->ack_needed.clear();
  // What ends a grant makes room for the next one.
  if (segment.AllAcked()) {
    Urgent();
  } else {
    ReportSoon(now);
  }
}

std::vector<LaneAck> ConsumerMachine::Impl::AcksUpTo(size_t most) const {
  std::vector<LaneAck> acks;
  for (const auto& [id, lane] : lanes_) {
    for (const LaneSegment& segment : lane.segments) {
      const bool done = segment.AllAcked();
      if (segment.acked <= segment.from && !done) continue;
      if (acks.size() >= most) return acks;
      acks.push_back({.lane = id, .seq = segment.seq, .elements = segment.acked, .done = done});
    }
  }
  return acks;
}

void ConsumerMachine::Impl::FillAcks(ConsumerPoll& poll) const {
  poll.acks = AcksUpTo(kAcksOfPoll);
  if (!by_hand()) return;
  for (const auto& [id, lane] : lanes_) {
    const bool all = lane.passed == lane.segments.size();
    poll.handed_before = all ? lane.next_seq : lane.segments[lane.passed].seq;
  }
  poll.unacknowledged = unacknowledged_;
  poll.unacknowledged_bytes = unacknowledged_bytes_;
  poll.has_all = told_has_all_;
}

// The rest of what did not fit in one poll.
bool ConsumerMachine::Impl::MoreAcksWait() const {
  return first_come() && AcksUpTo(kAcksOfPoll + 1).size() > kAcksOfPoll;
}

// Passes over the segments at the front that were handed out in full.
void ConsumerMachine::Impl::SkipHanded(LaneReader& lane) {
  const size_t before = lane.passed;
  while (lane.passed < lane.segments.size() && lane.segments[lane.passed].AllHanded()) {
    ++lane.passed;
  }
  // Held by the program, they make room for other grants.
  if (by_hand() && lane.passed > before) Urgent();
}

void ConsumerMachine::Impl::ForgetFront(LaneReader& lane) {
  const LaneSegment& front = lane.segments.front();
  if (front.End()) lane.begin = *front.End();
  for (const auto& [index, element] : front.buffer) buffered_bytes_ -= element.bytes;
  lane.segments.pop_front();
  if (lane.passed > 0) --lane.passed;
}

bool ConsumerMachine::Impl::HasAllGiven() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& entry) {
    return entry.second.passed == entry.second.segments.size();
  });
}

bool ConsumerMachine::Impl::HasAllThereIs() const {
  return by_hand() && assignment_ && assignment_->rest_is_own && HasAllGiven();
}

ErrorPtr ConsumerMachine::Impl::WhyAcknowledgeFirst() const {
  if (!by_hand() || unacknowledged_ == 0) return nullptr;
  std::string limit;
  if (unacknowledged_ >= options_.unacknowledged_max) {
    limit = absl::StrCat("unacknowledged_max, which is ", options_.unacknowledged_max);
  } else if (unacknowledged_bytes_ >= options_.unacknowledged_bytes_max) {
    limit = absl::StrCat("unacknowledged_bytes_max, which is ", options_.unacknowledged_bytes_max);
  } else if (assignment_ && !assignment_->ack_needed.empty() && HasAllGiven()) {
    limit = assignment_->ack_needed;
  }
  if (limit.empty()) return nullptr;
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kAckNeeded,
                   absl::StrCat("this reader holds ", unacknowledged_,
                                " elements that it has not acknowledged (", unacknowledged_bytes_,
                                " bytes), and gets no more before it acknowledges some: ", limit));
}

}  // namespace lockstep::dispatch

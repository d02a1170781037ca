// What a consumer reads ahead, and what it hands out.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/data/consumer/consumer_impl.h"

namespace lockstep::dispatch {

namespace {

constexpr int64_t kEverything = std::numeric_limits<int64_t>::max();

}  // namespace

// --- Answers of workers ---

void ConsumerMachine::Impl::Take(Time now, ReadAnswered& event, ConsumerEffects& /*out*/) {
  const auto found = reads_.find(event.read);
  if (found == reads_.end()) return;
  const Read read = found->second;
  reads_.erase(found);
  asked_bytes_ -= read.bytes;
  const auto lane = lanes_.find(read.lane);
  LaneSegment* segment = lane == lanes_.end() ? nullptr : lane->second.Find(read.seq);
  if (segment == nullptr) return;
  segment->reading.reset();
  segment->backoff = absl::ZeroDuration();
  int64_t index = read.from;
  for (Element& element : event.elements) {
    const bool wanted = index >= (first_come() ? segment->handed : segment->from);
    const uint64_t bytes = element.bytes;
    if (wanted && segment->buffer.emplace(index, std::move(element)).second) {
      buffered_bytes_ += bytes;
    }
    segment->known = std::max(segment->known, index + 1);
    index += read.stride;
  }
  segment->known = std::max(segment->known, event.known);
  if (event.ended) NoteCount(lane->second, *segment, event.known);
  if (event.elements.empty() && !event.ended && read.bytes > 0) {
    // It has nothing to say yet.
    segment->backoff = options_.retry_first;
    segment->retry_at = now + segment->backoff;
  }
}

void ConsumerMachine::Impl::Take(Time now, ReadFailed& event, ConsumerEffects& out) {
  const auto found = reads_.find(event.read);
  if (found == reads_.end()) return;
  const Read read = found->second;
  reads_.erase(found);
  asked_bytes_ -= read.bytes;
  const auto lane = lanes_.find(read.lane);
  LaneSegment* segment = lane == lanes_.end() ? nullptr : lane->second.Find(read.seq);
  if (segment == nullptr) return;
  segment->reading.reset();
  segment->prepared = false;
  segment->backoff = segment->backoff == absl::ZeroDuration()
                         ? options_.retry_first
                         : std::min(segment->backoff * 2, options_.retry_max);
  segment->retry_at = now + segment->backoff;
  if (event.unreachable) {
    if (std::find(unreachable_.begin(), unreachable_.end(), read.worker) == unreachable_.end()) {
      unreachable_.push_back(read.worker);
      out.notices.push_back(absl::StrCat("a worker cannot be reached: ",
                                         event.error == nullptr ? "" : event.error->message));
    }
  } else {
    failures_.push_back({.lane = read.lane,
                         .seq = read.seq,
                         .segment = segment->segment,
                         .worker = read.worker,
                         .error = event.error});
  }
  Urgent();
}

void ConsumerMachine::Impl::NoteCount(LaneReader& lane, LaneSegment& segment, int64_t count) {
  if (segment.count) return;
  segment.count = count;
  segment.known = std::max(segment.known, count);
  lane.Number();
  if (first_come()) {
    if (segment.AllAcked()) Urgent();
  } else if (!segment.told_count) {
    Urgent();
  }
}

void ConsumerMachine::Impl::DropRead(LaneReader& lane, ConsumerEffects& out) {
  for (LaneSegment& segment : lane.segments) {
    for (const auto& [index, element] : segment.buffer) buffered_bytes_ -= element.bytes;
    if (!segment.reading) continue;
    out.cancelled_reads.push_back(*segment.reading);
    asked_bytes_ -= reads_[*segment.reading].bytes;
    reads_.erase(*segment.reading);
  }
}

// --- Handing out ---

void ConsumerMachine::Impl::HandOutAll(Time now, ConsumerEffects& out) {
  while (!asks_.empty() && state_ == State::kReading) {
    if (finished_ || (assignment_ && assignment_->phase == Phase::kFinished)) {
      return EndAsks(nullptr, out);
    }
    bool given = false;
    switch (options_.spec.mode) {
      case Mode::kFirstCome:
        for (auto& [id, lane] : lanes_) SkipHanded(lane);
        if (HasAllThereIs()) return EndAsks(nullptr, out);
        if (const ErrorPtr why = WhyAcknowledgeFirst(); why != nullptr) return EndAsks(why, out);
        given = HandOutFirstCome(now, out);
        break;
      case Mode::kExact:
        given = HandOutExact(now, out);
        break;
      case Mode::kRounds:
        given = HandOutRound(now, out);
        break;
    }
    if (!given && !finished_) return;
  }
}

void ConsumerMachine::Impl::Give(LaneReader& lane, LaneSegment& segment, int64_t index,
                                 int64_t round, ConsumerEffects& out) {
  const auto found = segment.buffer.find(index);
  HandOut hand{.ask = asks_.front(),
               .element = std::move(found->second),
               .place = {.lane = lane.lane,
                         .seq = segment.seq,
                         .segment = segment.segment,
                         .element = index,
                         .round = round,
                         .task = lane.task}};
  buffered_bytes_ -= hand.element.bytes;
  segment.buffer.erase(found);
  segment.handed = index + 1;
  if (by_hand()) {
    segment.held_bytes.push_back(hand.element.bytes);
    ++unacknowledged_;
    unacknowledged_bytes_ += hand.element.bytes;
  }
  ++handed_out_;
  asks_.pop_front();
  out.handed_out.push_back(std::move(hand));
}

bool ConsumerMachine::Impl::HandOutFirstCome(Time /*now*/, ConsumerEffects& out) {
  for (auto& [id, lane] : lanes_) {
    if (lane.passed == lane.segments.size()) continue;
    LaneSegment& segment = lane.segments[lane.passed];
    if (segment.buffer.count(segment.handed) == 0) continue;
    Give(lane, segment, segment.handed, -1, out);
    SkipHanded(lane);
    return true;
  }
  return false;
}

bool ConsumerMachine::Impl::HandOutExact(Time now, ConsumerEffects& out) {
  if (lanes_.empty()) return false;
  LaneReader& lane = lanes_.begin()->second;
  const LaneProgress before = ProgressOf(lane);
  LaneSegment* segment = lane.At(position_);
  if (segment == nullptr) {
    const std::optional<int64_t> total = lane.Total();
    if (!total || position_ < *total) return false;
    finished_ = true;
    end_.elements = start_.elements + *total;
    Urgent();
    return false;
  }
  const int64_t index = segment->IndexOf(position_);
  if (segment->buffer.count(index) == 0) return false;
  Give(lane, *segment, index, -1, out);
  position_ += options_.spec.consumers;
  if (ProgressOf(lane).seq != before.seq) Urgent();
  ReportSoon(now);
  return true;
}

const Seating* ConsumerMachine::Impl::SeatingAt(int64_t round) const {
  const Seating* found = nullptr;
  if (!assignment_) return nullptr;
  for (const Seating& seating : assignment_->seatings) {
    if (seating.first_round <= round) found = &seating;
  }
  return found;
}

int64_t ConsumerMachine::Impl::TurnAt(const LaneReader& lane, int64_t round) const {
  int64_t position = lane.base_element;
  if (!assignment_) return position;
  const std::vector<Seating>& seatings = assignment_->seatings;
  for (size_t i = 0; i < seatings.size(); ++i) {
    const int64_t first = std::max(seatings[i].first_round, lane.base_round);
    const int64_t last =
        i + 1 < seatings.size() ? std::min(seatings[i + 1].first_round, round) : round;
    if (last > first) position += (last - first) * seatings[i].consumers;
  }
  return position;
}

int64_t ConsumerMachine::Impl::NextTurn(const LaneReader& lane) const {
  const int64_t next = lane.lane <= turn_over_ ? round_ + 1 : round_;
  return std::max(next, lane.starting_round);
}

int64_t ConsumerMachine::Impl::NeededFrom(const LaneReader& lane) const {
  if (first_come()) return 0;
  if (exact()) return finished_ ? kEverything : position_ - index_;
  return lane.ended ? kEverything : TurnAt(lane, NextTurn(lane));
}

LaneProgress ConsumerMachine::Impl::ProgressOf(const LaneReader& lane) const {
  const int64_t needed = NeededFrom(lane);
  int64_t width = options_.spec.consumers;
  if (rounds() && !lane.ended) {
    const Seating* seating = SeatingAt(NextTurn(lane));
    width = seating == nullptr ? 1 : seating->consumers;
  }
  LaneProgress progress{.lane = lane.lane, .seq = lane.next_seq, .needs = lane.next_seq};
  for (auto segment = lane.segments.rbegin(); segment != lane.segments.rend(); ++segment) {
    const std::optional<int64_t> end = segment->End();
    if (!end || *end > needed) progress.seq = segment->seq;
    if (needed != kEverything && (!end || *end >= needed + width)) progress.needs = segment->seq;
  }
  return progress;
}

// Whether this consumer has a seat in the round that is on.
bool ConsumerMachine::Impl::JumpToSeat() {
  const Seating* seating = SeatingAt(round_);
  if (seating != nullptr && seating->index >= 0) return true;
  if (!assignment_) return false;
  for (const Seating& later : assignment_->seatings) {
    if (later.first_round <= round_ || later.index < 0) continue;
    round_ = later.first_round;
    skip_turns_ = 0;
    turn_over_ = LaneId(-1);
    place_ = 0;
    return true;
  }
  return false;
}

ConsumerMachine::Impl::Turn ConsumerMachine::Impl::TakeTurns(ConsumerEffects& out) {
  const Seating& seating = *SeatingAt(round_);
  for (auto& [id, lane] : lanes_) {
    if (id <= turn_over_ || lane.starting_round > round_ || lane.ended) continue;
    const int64_t turn = TurnAt(lane, round_);
    if (turn + seating.consumers > lane.KnownTotal()) {
      const std::optional<int64_t> total = lane.Total();
      if (!total) return Turn::kWaits;
      if (turn + seating.consumers > *total) {
        lane.ended = true;
        lane.ended_after = handed_out_;
        dropped_ += std::max<int64_t>(0, *total - turn);
        Urgent();
        continue;
      }
    }
    if (skip_turns_ > 0) {  // handed out before the cursor was taken
      --skip_turns_;
      ++place_;
      turn_over_ = id;
      continue;
    }
    const int64_t position = turn + seating.index;
    LaneSegment* segment = lane.At(position);
    if (segment == nullptr) {
      if (!lane.segments.empty() && lane.segments.front().start &&
          position < *lane.segments.front().start) {
        Fail(MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                       absl::StrCat("round ", round_,
                                    " is over for all: restore all consumers from their cursors")),
             out);
      }
      return Turn::kWaits;
    }
    const int64_t index = segment->IndexOf(position);
    if (index < segment->from) {
      Fail(MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                     absl::StrCat("round ", round_,
                                  " is over for all: restore all consumers from their cursors")),
           out);
      return Turn::kWaits;
    }
    if (segment->buffer.count(index) == 0) return Turn::kWaits;
    const LaneProgress before = ProgressOf(lane);
    Give(lane, *segment, index, round_, out);
    turn_over_ = id;
    ++place_;
    end_ = {.round = round_, .turns = place_};
    if (ProgressOf(lane).seq != before.seq) Urgent();
    return Turn::kGiven;
  }
  return Turn::kOver;
}

bool ConsumerMachine::Impl::HandOutRound(Time now, ConsumerEffects& out) {
  for (;;) {
    if (!JumpToSeat()) return false;
    if (begun_ < round_) {
      if (block_ && round_ >= *block_) return false;
      begun_ = round_;
      ReportSoon(now);
    }
    const Turn turn = TakeTurns(out);
    if (turn != Turn::kOver) return turn == Turn::kGiven;
    const bool all_ended =
        !lanes_.empty() && std::all_of(lanes_.begin(), lanes_.end(),
                                       [](const auto& entry) { return entry.second.ended; });
    if (all_ended && std::all_of(lanes_.begin(), lanes_.end(),
                                 [](const auto& entry) { return entry.second.closed; })) {
      finished_ = true;
      Urgent();
      return false;
    }
    int64_t next = round_ + 1;
    if (place_ == 0) {
      // Nothing is read in this round: the next one is that in which something begins.
      next = kEverything;
      for (const auto& [id, lane] : lanes_) {
        if (!lane.ended && lane.starting_round > round_) {
          next = std::min(next, lane.starting_round);
        }
      }
      if (next == kEverything) return false;
    }
    // What is agreed on meanwhile may begin earlier than what is known now.
    if (block_ && next >= *block_) return false;
    round_ = next;
    turn_over_ = LaneId(-1);
    place_ = 0;
  }
}

// --- Reading ahead ---

void ConsumerMachine::Impl::PlanReads(Time now, ConsumerEffects& out) {
  if (finished_) return;
  if (first_come()) {
    for (auto& [id, lane] : lanes_) PlanLane(now, lane, 0, 1, 0, true, out);
    return;
  }
  if (exact()) {
    for (auto& [id, lane] : lanes_) {
      PlanLane(now, lane, position_, options_.spec.consumers, 0, true, out);
    }
    return;
  }
  if (!JumpToSeat()) return;
  // In the order of their turns.
  std::vector<LaneReader*> order;
  for (auto& [id, lane] : lanes_) {
    if (!lane.ended && id > turn_over_ && lane.starting_round <= round_) order.push_back(&lane);
  }
  for (auto& [id, lane] : lanes_) {
    if (!lane.ended && (id <= turn_over_ || lane.starting_round > round_)) order.push_back(&lane);
  }
  bool first = true;
  for (LaneReader* lane : order) {
    const int64_t round = NextTurn(*lane);
    const Seating* seating = SeatingAt(round);
    if (seating == nullptr || seating->index < 0) continue;
    PlanLane(now, *lane, TurnAt(*lane, round) + seating->index, seating->consumers,
             seating->consumers - 1 - seating->index, first, out);
    first = false;
  }
}

void ConsumerMachine::Impl::PlanLane(Time now, LaneReader& lane, int64_t wanted, int64_t stride,
                                     int64_t ahead, bool first, ConsumerEffects& out) {
  bool needed = first;
  for (size_t i = first_come() ? lane.passed : 0; i < lane.segments.size(); ++i) {
    LaneSegment& segment = lane.segments[i];
    int64_t index = segment.handed;
    if (stride > 1 || !first_come()) {
      if (!segment.start) {
        if (stride == 1) {
          index = segment.from;
        } else {
          // Where its first element for this reader is, depends on those before.
          PlanSegment(now, lane, segment, -1, stride, ahead, false, out);
          continue;
        }
      } else {
        int64_t position = wanted;
        if (position < *segment.start) {
          position += (*segment.start - position + stride - 1) / stride * stride;
        }
        index = segment.IndexOf(position);
      }
    }
    if (segment.count && index >= *segment.count) continue;
    const bool asked = PlanSegment(now, lane, segment, index, stride, ahead, needed, out);
    needed = needed && !asked && segment.count.has_value();
  }
}

// Whether there is anything left to read in it.
bool ConsumerMachine::Impl::PlanSegment(Time now, LaneReader& lane, LaneSegment& segment,
                                        int64_t wanted, int64_t stride, int64_t ahead, bool needed,
                                        ConsumerEffects& out) {
  if (segment.reading || segment.worker == WorkerId() || segment.retry_at > now) return true;
  const bool prepare = wanted < 0;
  if (prepare && segment.prepared) return true;
  int64_t index = wanted;
  if (!prepare && !segment.buffer.empty()) {
    if (segment.planned_stride != stride || segment.planned_residue != wanted % stride ||
        segment.buffer.begin()->first != wanted) {
      // What another seat would have needed, or was passed over.
      for (auto it = segment.buffer.begin(); it != segment.buffer.end();) {
        if (it->first >= wanted && (it->first - wanted) % stride == 0) {
          ++it;
          continue;
        }
        buffered_bytes_ -= it->second.bytes;
        it = segment.buffer.erase(it);
      }
      segment.planned_stride = stride;
      segment.planned_residue = wanted % stride;
      segment.have_to = wanted;
    }
    index = std::max(wanted, segment.have_to);
    while (segment.buffer.count(index) > 0) index += stride;
    segment.have_to = index;
    if (segment.count && index >= *segment.count) return false;
    const auto buffered = static_cast<int64_t>(segment.buffer.size());
    if (index > wanted && buffered * 2 > options_.read_elements_max) return true;
  }
  const bool room =
      static_cast<int32_t>(reads_.size()) < options_.reads_max &&
      buffered_bytes_ + asked_bytes_ + options_.one_read_bytes_max <= options_.read_bytes_max;
  if (!needed && !room) return true;
  // Found by the address of the moment.
  const auto address =
      std::find_if(assignment_->workers.begin(), assignment_->workers.end(),
                   [&](const WorkerAddress& worker) { return worker.worker == segment.worker; });
  if (address == assignment_->workers.end()) return true;
  const ReadId id(++last_read_);
  segment.reading = id;
  if (prepare) segment.prepared = true;
  const uint64_t bytes = prepare ? 0 : options_.one_read_bytes_max;
  asked_bytes_ += bytes;
  reads_[id] = {.lane = lane.lane,
                .seq = segment.seq,
                .worker = segment.worker,
                .from = prepare ? segment.from : index,
                .stride = stride,
                .bytes = bytes};
  out.reads.push_back({.read = id,
                       .worker = *address,
                       .dataset = options_.spec.dataset,
                       .segment = segment.segment,
                       .from = prepare ? segment.from : index,
                       .stride = stride,
                       .ahead = ahead,
                       .max_elements = prepare ? 0 : options_.read_elements_max,
                       .max_bytes = bytes});
  return true;
}

// --- Looking in ---

std::optional<std::string> ConsumerMachine::Impl::CursorText(ErrorPtr& why) const {
  const auto none = [&why](std::string message) {
    why = MakeError(absl::StatusCode::kFailedPrecondition, reason::kInvalidArgument,
                    std::move(message));
    return std::nullopt;
  };
  if (first_come()) {
    return none("first come, first served has no cursor: what was acknowledged counts");
  }
  if (!options_.spec.sharding_is_dynamic()) {
    return none("a cursor is of segments that are shared out dynamically");
  }
  if (!assignment_) return none("the reading has not begun");
  keeps_cursors_ = true;
  if (exact() && rejoin_ && !found_place_) return options_.rejoin;
  dispatch::Cursor cursor{.definition = options_.definition,
                          .mode = options_.spec.mode,
                          .next = assignment_->next_segment};
  for (const auto& [segment, from] : assignment_->returned) {
    cursor.rests.push_back({.segment = segment, .from = from});
  }
  if (exact()) {
    cursor.elements = start_.elements + position_ - index_;
  } else {
    cursor.round = round_;
    cursor.place = place_;
  }
  for (const auto& [id, lane] : lanes_) {
    int64_t needed = NeededFrom(lane);
    // The window of the dispatcher's latest answer may be smaller than an earlier one.
    if (exact()) cursor.next = std::max(cursor.next, lane.last_segment + 1);
    if (rounds() && lane.ended) {
      if (lane.ended_after < handed_out_) continue;
      // It was found out in looking for the next element: it is not over for a reader at this
      // place.
      needed = TurnAt(lane, NextTurn(lane));
    }
    bool behind = false;
    for (const LaneSegment& segment : lane.segments) {
      const std::optional<int64_t> end = segment.End();
      if (!behind && end && *end <= needed) continue;
      int64_t from = segment.from;
      if (!behind && segment.start) from += std::max<int64_t>(0, needed - *segment.start);
      cursor.rests.push_back({.segment = segment.segment, .from = from});
      behind = true;
    }
    // The place is in a segment that has not been granted yet.
    if (!exact() || lane.closed) continue;
    const int64_t end =
        lane.segments.empty() ? lane.begin : lane.segments.back().End().value_or(needed);
    if (end < needed) cursor.rests.push_back({.segment = cursor.next++, .from = needed - end});
  }
  std::sort(cursor.rests.begin(), cursor.rests.end());
  while (!cursor.rests.empty() && cursor.rests.back().from == 0 &&
         cursor.rests.back().segment == cursor.next - 1) {
    --cursor.next;
    cursor.rests.pop_back();
  }
  return EncodeCursor(cursor);
}

ConsumerMachine::View ConsumerMachine::Impl::GetView() const {
  View view{.handed_out = handed_out_,
            .round = begun_,
            .buffered_bytes = buffered_bytes_,
            .reads_in_flight = static_cast<int32_t>(reads_.size()),
            .dropped = dropped_,
            .stalls = stalls_,
            .unacknowledged = unacknowledged_,
            .unacknowledged_bytes = unacknowledged_bytes_};
  switch (state_) {
    case State::kIdle:
      view.state = "idle";
      break;
    case State::kOpening:
      view.state = "opening";
      break;
    case State::kReading:
      view.state = finished_ ? "finished" : "reading";
      break;
    case State::kFailed:
      view.state = "failed";
      break;
    case State::kClosing:
      view.state = "closing";
      break;
    case State::kClosed:
      view.state = "closed";
      break;
  }
  if (asks_.empty() || state_ != State::kReading) return view;
  if (!assignment_) {
    view.waits_for = "the dispatcher";
  } else if (assignment_->phase == Phase::kResolving) {
    view.waits_for = assignment_->waits_for.empty() ? "the dataset's files to be listed"
                                                    : assignment_->waits_for;
  } else if (rounds() && SeatingAt(round_) == nullptr) {
    view.waits_for = "the other consumers";
  } else if (rounds() && block_ && round_ >= *block_ && begun_ < round_) {
    view.waits_for = absl::StrCat("all consumers to agree on round ", *block_);
  } else if (unacknowledged_ > 0 && HasAllGiven()) {
    view.waits_for = absl::StrCat("a segment, or others to acknowledge; holds ", unacknowledged_,
                                  " elements that it has not acknowledged itself");
  } else {
    for (const auto& [id, lane] : lanes_) {
      for (const LaneSegment& segment : lane.segments) {
        if (segment.AllHanded()) continue;
        view.waits_for =
            segment.worker == WorkerId()
                ? absl::StrCat("a worker for segment ", segment.segment)
                : absl::StrCat("segment ", segment.segment, " of worker ", segment.worker.value());
        return view;
      }
    }
    view.waits_for = "a segment, or the end";
  }
  return view;
}

}  // namespace lockstep::dispatch

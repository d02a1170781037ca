#include "lockstep/data/consumer/consumer_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/data/consumer/consumer_impl.h"

namespace lockstep::dispatch {

namespace {

ErrorPtr Cancelled(std::string message) {
  return MakeError(absl::StatusCode::kCancelled, reason::kCancelled, std::move(message));
}

}  // namespace

ConsumerMachine::Impl::Impl(ConsumerOptions options)
    : options_(std::move(options)), calls_(options_.retry_first, options_.retry_max) {
  start_.mode = options_.spec.mode;
}

void ConsumerMachine::Impl::Open(Time now, ConsumerEffects& out) {
  if (state_ != State::kIdle) return;
  for (const std::string* text : {&options_.spec.cursor, &options_.rejoin}) {
    if (text->empty()) continue;
    std::variant<dispatch::Cursor, ErrorPtr> decoded = DecodeCursor(*text);
    if (std::holds_alternative<ErrorPtr>(decoded)) return Fail(std::get<ErrorPtr>(decoded), out);
    dispatch::Cursor& cursor = std::get<dispatch::Cursor>(decoded);
    if (cursor.mode != options_.spec.mode || cursor.definition != options_.definition) {
      return Fail(
          MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                    absl::StrCat("the cursor is of a reading of dataset ", cursor.definition,
                                 " in order ", std::string(ModeName(cursor.mode)), ", and this is ",
                                 options_.definition, " in order ",
                                 std::string(ModeName(options_.spec.mode)))),
          out);
    }
    if (text == &options_.rejoin) {
      rejoin_ = std::move(cursor);
    } else {
      start_ = std::move(cursor);
    }
  }
  if (rejoin_ && exact() && rejoin_->elements < start_.elements) {
    return Fail(
        MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                  absl::StrCat("the cursor to go on from is at element ", rejoin_->elements,
                               ", and the iteration begins behind it, at ", start_.elements)),
        out);
  }
  state_ = State::kOpening;
  calls_.Expect(now);
  SendOpen(now, out);
}

void ConsumerMachine::Impl::SendOpen(Time /*now*/, ConsumerEffects& out) {
  OpenIteration request{.spec = options_.spec,
                        .consumer = options_.consumer,
                        .life = options_.life,
                        .index = options_.index,
                        .have = options_.have,
                        .host = options_.host,
                        .pid = options_.pid,
                        .machine = options_.machine,
                        .started = options_.started,
                        .member = options_.member};
  if (rejoin_) {
    request.from = ReadingPlace{
        .elements = rejoin_->elements, .round = rejoin_->round, .turns = rejoin_->place};
  }
  const RequestId id = calls_.Add({.kind = Kind::kOpen});
  out.requests.push_back({id, std::move(request)});
}

void ConsumerMachine::Impl::SendClose(Time /*now*/, ConsumerEffects& out) {
  const RequestId id = calls_.Add({.kind = Kind::kClose});
  out.requests.push_back({id, CloseConsumer{.iteration = opened_->iteration,
                                            .consumer = opened_->consumer,
                                            .life = options_.life,
                                            .acks = first_come() ? Acks() : std::vector<LaneAck>(),
                                            .round = begun_,
                                            .finished = finished_,
                                            .end = end_}});
}

void ConsumerMachine::Impl::Next(Time now, AskId ask, ConsumerEffects& out) {
  if (options_.acknowledge_by_itself) AcknowledgeHanded(now);
  timer_.NoteAsk(now, handed_out_, !asks_.empty());
  asks_.push_back(ask);
  const int64_t before = handed_out_;
  Advance(now, out);
  if (handed_out_ == before && !asks_.empty()) ++stalls_;
}

void ConsumerMachine::Impl::Cancel(AskId ask, ConsumerEffects& out) {
  const auto found = std::find(asks_.begin(), asks_.end(), ask);
  if (found == asks_.end()) return;
  asks_.erase(found);
  out.handed_out.push_back({.ask = ask, .error = Cancelled("the request was cancelled")});
}

void ConsumerMachine::Impl::Close(Time now, ConsumerEffects& out) {
  if (state_ == State::kClosing || state_ == State::kClosed) return;
  EndAsks(Cancelled("the consumer was closed"), out);
  CancelReads(out);
  if (!opened_ || state_ == State::kFailed) {
    state_ = State::kClosed;
    out.closed = true;
    return;
  }
  state_ = State::kClosing;
  calls_.Expect(now);
  SendClose(now, out);
}

void ConsumerMachine::Impl::EndAsks(const ErrorPtr& error, ConsumerEffects& out) {
  for (const AskId ask : asks_) {
    out.handed_out.push_back({.ask = ask, .error = error, .end = error == nullptr});
  }
  asks_.clear();
}

void ConsumerMachine::Impl::Fail(const ErrorPtr& why, ConsumerEffects& out) {
  if (state_ == State::kFailed || state_ == State::kClosed) return;
  state_ = State::kFailed;
  failure_ = why;
  CancelReads(out);
  EndAsks(why, out);
}

void ConsumerMachine::Impl::CancelReads(ConsumerEffects& out) {
  for (const auto& [id, read] : reads_) out.cancelled_reads.push_back(id);
  reads_.clear();
  asked_bytes_ = 0;
  for (auto& [id, lane] : lanes_) {
    for (LaneSegment& segment : lane.segments) segment.reading.reset();
  }
}

void ConsumerMachine::Impl::Handle(Time now, ConsumerEvent event, ConsumerEffects& out) {
  std::visit([&](auto& what) { Take(now, what, out); }, event);
  Advance(now, out);
}

void ConsumerMachine::Impl::Take(Time now, DispatcherAnswered& event, ConsumerEffects& out) {
  const std::optional<CallInFlight> request = calls_.Take(event.request);
  if (!request) return;
  if (state_ == State::kClosed || state_ == State::kFailed) return;
  if (event.unavailable) {
    if (calls_.SilentFor(now) >= options_.give_up_after) {
      const ErrorPtr why = MakeError(absl::StatusCode::kUnavailable, reason::kUnavailable,
                                     absl::StrCat("the dispatcher did not answer for ",
                                                  absl::FormatDuration(calls_.SilentFor(now))));
      return Fail(why, out);
    }
    return calls_.Retry(now);
  }
  calls_.NoteAnswer(now);
  if (request->kind == Kind::kClose) {
    state_ = State::kClosed;
    out.closed = true;
    return;
  }
  if (event.error != nullptr) {
    if (state_ == State::kClosing) return;
    return Fail(event.error, out);
  }
  if (auto* opened = std::get_if<IterationOpened>(&event.answer);
      opened != nullptr && request->kind == Kind::kOpen) {
    return TakeOpened(now, *opened, out);
  }
  auto* assignment = std::get_if<Assignment>(&event.answer);
  if (assignment == nullptr || state_ != State::kReading) return;
  const auto forget = [](auto& list, size_t count) {
    list.erase(list.begin(),
               list.begin() + static_cast<std::ptrdiff_t>(std::min(count, list.size())));
  };
  forget(unreachable_, request->unreachable);
  forget(failures_, request->failures);
  // Before the answer is looked at: an old one, too, says that its reports have arrived.
  calls_.DropReports(*request);
  // An answer of a former life of the dispatcher, or one that another has overtaken.
  if (assignment_) {
    if (assignment->service == assignment_->service) {
      if (assignment->version < assignment_->version) return;
    } else if (event.request < newest_answered_) {
      return;
    }
  }
  newest_answered_ = std::max(newest_answered_, event.request);
  TakeAssignment(now, std::move(*assignment), out);
}

void ConsumerMachine::Impl::TakeOpened(Time /*now*/, const IterationOpened& answer,
                                       ConsumerEffects& /*out*/) {
  opened_ = answer;
  if (state_ != State::kOpening) return;
  state_ = State::kReading;
  index_ = answer.index;
  if (exact()) position_ = index_;
  if (rejoin_ && exact()) position_ = rejoin_->elements - start_.elements + index_;
  if (rejoin_ && rounds()) {
    round_ = rejoin_->round;
    skip_turns_ = rejoin_->place;
    begun_ = skip_turns_ > 0 ? round_ : round_ - 1;
    end_ = {.round = round_, .turns = skip_turns_};
  }
  Urgent();
}

void ConsumerMachine::Impl::TakeAssignment(Time now, Assignment assignment, ConsumerEffects& out) {
  assignment_ = std::move(assignment);
  if (assignment_->phase == Phase::kFailed || assignment_->phase == Phase::kCollected) {
    ErrorPtr error = assignment_->error;
    if (error == nullptr) {
      error = MakeError(absl::StatusCode::kAborted, reason::kIterationCollected,
                        "the iteration was collected");
    }
    return Fail(error, out);
  }
  const std::optional<int64_t> before = block_;
  block_ = assignment_->block_round;
  // Too late to stop before it: that is what the next poll says.
  if (block_ && *block_ <= begun_) block_.reset();
  if (rounds() && (assignment_->block_round || before)) Urgent();
  TakeLanes(now, *assignment_, out);
  if (MoreAcksWait()) Urgent();
}

void ConsumerMachine::Impl::TakeLanes(Time now, const Assignment& assignment,
                                      ConsumerEffects& out) {
  if (assignment.phase != Phase::kReading) return;
  std::set<LaneId> listed;
  for (const Lane& from : assignment.lanes) {
    listed.insert(from.lane);
    LaneReader& lane = lanes_[from.lane];
    lane.lane = from.lane;
    lane.task = from.task;
    lane.starting_round = from.starting_round;
    lane.base_round = from.base_round;
    lane.base_element = from.base_element;
    const bool found = FoundPlace(from);
    lane.closed = found && from.closed;
    if (!found) continue;
    if (lane.segments.empty() && from.first_element >= 0) lane.begin = from.first_element;
    for (const Grant& grant : from.grants) TakeGrant(now, lane, from, grant, out);
    // What is not listed any more, is needed by nobody.
    const int64_t first = from.grants.empty() ? -1 : from.grants.front().seq;
    const auto is_done = [&](int64_t seq) {
      if (from.done_before >= 0) return seq < from.done_before;
      return first < 0 || seq < first;
    };
    while (!lane.segments.empty()) {
      LaneSegment& front = lane.segments.front();
      const bool gone = first_come() ? front.AllAcked() && is_done(front.seq)
                                     : front.seq < first && front.End().has_value() &&
                                           *front.End() <= NeededFrom(lane);
      if (!gone) break;
      ForgetFront(lane);
    }
    lane.Number();
  }
  for (auto it = lanes_.begin(); it != lanes_.end();) {
    if (listed.count(it->first) > 0) {
      ++it;
      continue;
    }
    DropRead(it->second, out);
    told_needs_.erase(it->first);
    it = lanes_.erase(it);
  }
}

void ConsumerMachine::Impl::TakeGrant(Time now, LaneReader& lane, const Lane& from,
                                      const Grant& grant, ConsumerEffects& out) {
  LaneSegment* segment = lane.Find(grant.seq);
  if (segment == nullptr) {
    if (!lane.segments.empty() && grant.seq < lane.segments.back().seq) return;
    if (lane.segments.empty() && exact() && rejoin_ && grant.segment < PlaceSegment()) return;
    const bool first = lane.segments.empty();
    segment = &lane.segments.emplace_back();
    segment->seq = grant.seq;
    segment->segment = grant.segment;
    segment->from = segment->handed = segment->acked = grant.from;
    lane.next_seq = grant.seq + 1;
    lane.last_segment = grant.segment;
    segment->known = grant.from;
    if (first && from.first_element >= 0) segment->start = from.first_element;
    if (first && exact() && rejoin_) {
      // Of the lane it is only known where the cursor points to.
      int64_t element = 0;
      if (!rejoin_->rests.empty() && rejoin_->rests.front().segment == grant.segment) {
        element = rejoin_->rests.front().from;
      }
      segment->start =
          rejoin_->elements - start_.elements - std::max<int64_t>(0, element - grant.from);
    }
    if (!first) lane.Number();
  }
  if (grant.elements >= 0) {
    segment->told_count = true;
    NoteCount(lane, *segment, grant.elements);
  }
  if (segment->worker == grant.worker) return;
  segment->worker = grant.worker;
  segment->prepared = false;
  segment->retry_at = now;
  segment->backoff = absl::ZeroDuration();
  if (segment->reading) {
    out.cancelled_reads.push_back(*segment->reading);
    asked_bytes_ -= reads_[*segment->reading].bytes;
    reads_.erase(*segment->reading);
    segment->reading.reset();
  }
}

void ConsumerMachine::Impl::ReportSoon(Time now) {
  report_at_ = std::min(report_at_, now + options_.report_every);
}

// Exact: the segment in which the cursor points that this consumer goes on from.
int64_t ConsumerMachine::Impl::PlaceSegment() const {
  return rejoin_->rests.empty() ? rejoin_->next : rejoin_->rests.front().segment;
}

// Exact: whether the grants hold the place that the consumer goes on from. Which of them that is it
// learns from any of them: the iteration may begin at another cursor of the same place than its
// own.
bool ConsumerMachine::Impl::FoundPlace(const Lane& from) {
  if (!exact() || !rejoin_ || found_place_) return true;
  if (!from.grants.empty()) {
    const Grant& last = from.grants.back();
    place_seq_ = std::max<int64_t>(0, last.seq + PlaceSegment() - last.segment);
    found_place_ = last.segment >= PlaceSegment();
  }
  // Otherwise it is the end.
  found_place_ = found_place_ || from.closed;
  if (!found_place_) Urgent();
  return found_place_;
}

void ConsumerMachine::Impl::AddProgress(ConsumerPoll& poll) const {
  if (exact() && rejoin_ && !found_place_) {
    if (place_seq_ >= 0) poll.progress.push_back({.seq = place_seq_, .needs = place_seq_ + 1});
    return;
  }
  for (const auto& [id, lane] : lanes_) {
    poll.progress.push_back(ProgressOf(lane));
    for (const LaneSegment& segment : lane.segments) {
      if (segment.count && !segment.told_count) {
        poll.counts.push_back({.lane = id, .seq = segment.seq, .elements = *segment.count});
      }
    }
  }
  if (exact() && lanes_.empty()) poll.progress.push_back({});
}

ConsumerPoll ConsumerMachine::Impl::MakePoll() const {
  ConsumerPoll poll{.iteration = opened_->iteration,
                    .consumer = opened_->consumer,
                    .life = options_.life,
                    .number = poll_number_,
                    .wait = options_.poll_wait,
                    .unreachable = unreachable_,
                    .failures = failures_,
                    .round = begun_,
                    .finished = finished_,
                    .end = end_,
                    .element_time = timer_.element_time()};
  if (assignment_) {
    poll.service = assignment_->service;
    poll.after = assignment_->version;
  }
  if (first_come()) {
    FillAcks(poll);
  } else {
    AddProgress(poll);
  }
  if (rounds()) poll.blocked_round = block_;
  poll.keeps_cursors = keeps_cursors_;
  if (!asks_.empty()) poll.waits_for = GetView().waits_for;
  return poll;
}

void ConsumerMachine::Impl::SendPolls(Time now, ConsumerEffects& out) {
  if (state_ != State::kReading || calls_.retrying()) return;
  if (assignment_ && assignment_->phase == Phase::kFinished) {
    report_at_ = Time::Infinite();
    return;
  }
  // One is parked, where it waits for news; a second one carries what cannot wait for its answer.
  const size_t in_flight = calls_.polls();
  const bool due = urgent_ || report_at_ <= now;
  if (in_flight >= 2 || (in_flight == 1 && !due)) return;
  urgent_ = false;
  report_at_ = Time::Infinite();
  ++poll_number_;
  const RequestId id = calls_.Add(
      {.kind = Kind::kPoll, .unreachable = unreachable_.size(), .failures = failures_.size()});
  out.requests.push_back({id, MakePoll()});
}

void ConsumerMachine::Impl::Advance(Time now, ConsumerEffects& out) {
  advanced_at_ = now;
  if (state_ == State::kFailed) EndAsks(failure_, out);
  if (state_ == State::kClosing || state_ == State::kClosed) {
    EndAsks(Cancelled("the consumer was closed"), out);
  }
  if (state_ != State::kReading) return;
  // What is handed out makes room for reads, and what is asked for decides what a poll says: so in
  // this order, and the polls last.
  HandOutAll(now, out);
  if (state_ == State::kReading) PlanReads(now, out);
  if (by_hand()) {
    // Told of the end, the program does not ask again.
    const bool has_all = asks_.empty() ? HasAllThereIs() : HasAllGiven();
    if (has_all != std::exchange(told_has_all_, has_all)) Urgent();
  }
  if (!first_come()) {
    for (const auto& [id, lane] : lanes_) {
      const LaneProgress progress = ProgressOf(lane);
      int64_t& told = told_needs_[id];
      if (progress.needs <= told || progress.needs < lane.next_seq) continue;
      told = progress.needs;
      Urgent();
    }
  }
  SendPolls(now, out);
}

void ConsumerMachine::Impl::ReachDeadline(Time now, ConsumerEffects& out) {
  if (calls_.TakeRetry(now)) {
    if (state_ == State::kOpening) SendOpen(now, out);
    if (state_ == State::kClosing) SendClose(now, out);
    Urgent();
  }
  Advance(now, out);
}

Time ConsumerMachine::Impl::NextDeadline() const {
  if (state_ == State::kFailed || state_ == State::kClosed) return Time::Infinite();
  Time next = calls_.retry_at();
  if (state_ != State::kReading) return next;
  if (!calls_.retrying() && calls_.polls() < 2) next = std::min(next, report_at_);
  for (const auto& [id, lane] : lanes_) {
    for (const LaneSegment& segment : lane.segments) {
      // What was due when reads were planned last waits for something else: for room, say.
      if (segment.backoff > absl::ZeroDuration() && !segment.reading &&
          segment.retry_at > advanced_at_) {
        next = std::min(next, segment.retry_at);
      }
    }
  }
  return next;
}

ConsumerMachine::ConsumerMachine(ConsumerOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
ConsumerMachine::~ConsumerMachine() = default;
void ConsumerMachine::Open(Time now, ConsumerEffects& out) { impl_->Open(now, out); }
void ConsumerMachine::Next(Time now, AskId ask, ConsumerEffects& out) {
  impl_->Next(now, ask, out);
}
void ConsumerMachine::Cancel(Time /*now*/, AskId ask, ConsumerEffects& out) {
  impl_->Cancel(ask, out);
}
void ConsumerMachine::Acknowledge(Time now, const ElementPlace& place, ConsumerEffects& out) {
  impl_->Acknowledge(now, place, out);
}
void ConsumerMachine::Close(Time now, ConsumerEffects& out) { impl_->Close(now, out); }
void ConsumerMachine::Handle(Time now, ConsumerEvent event, ConsumerEffects& out) {
  impl_->Handle(now, std::move(event), out);
}
void ConsumerMachine::ReachDeadline(Time now, ConsumerEffects& out) {
  impl_->ReachDeadline(now, out);
}
Time ConsumerMachine::NextDeadline() const { return impl_->NextDeadline(); }
std::vector<LaneAck> ConsumerMachine::Acks() const { return impl_->Acks(); }
std::optional<std::string> ConsumerMachine::Cursor(ErrorPtr& why) const {
  return impl_->CursorText(why);
}
ConsumerMachine::View ConsumerMachine::GetView() const { return impl_->GetView(); }
std::optional<IterationOpened> ConsumerMachine::opened() const { return impl_->opened(); }
ErrorPtr ConsumerMachine::failed() const { return impl_->failed(); }

}  // namespace lockstep::dispatch

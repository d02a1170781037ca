#include "lockstep/data/consumer/consumer_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/data/consumer/consumer_impl.h"
#include "lockstep/data/consumer/lane_intake.h"

namespace lockstep::dispatch {

namespace {

ErrorPtr Cancelled(std::string message) {
  return MakeError(absl::StatusCode::kCancelled, reason::kCancelled, std::move(message));
}

}  // namespace

ConsumerMachine::Impl::Impl(ConsumerOptions options)
    : options_(std::move(options)),
      calls_(options_.retry_first, options_.retry_max),
      polls_(options_.report_every),
      reads_(options_, lanes_),
      order_(ReadingOrder::Make(options_, lanes_, polls_)) {}

void ConsumerMachine::Impl::Open(Time now, ConsumerEffects& out) {
  if (state_ != State::kIdle) return;
  std::variant<ReadingStart, ErrorPtr> start = DecodeStart(options_);
  if (auto* why = std::get_if<ErrorPtr>(&start)) return Fail(*why, out);
  // Checked before anything is sent: a cursor that cannot be read costs no place in the iteration.
  order_->SetStart(std::move(std::get<ReadingStart>(start)));
  state_ = State::kOpening;
  // From here on its silence counts against `give_up_after`.
  calls_.Expect(now);
  SendOpen(out);
}

void ConsumerMachine::Impl::SendOpen(ConsumerEffects& out) {
  LOCKSTEP_DCHECK(state_ == State::kOpening);
  out.requests.push_back({calls_.Add(Kind::kOpen), OpenIteration{.spec = options_.spec,
                                                                 .consumer = options_.consumer,
                                                                 .life = options_.life,
                                                                 .index = options_.index,
                                                                 .have = options_.have,
                                                                 .from = order_->RejoinsAt(),
                                                                 .host = options_.host,
                                                                 .pid = options_.pid,
                                                                 .machine = options_.machine,
                                                                 .started = options_.started,
                                                                 .member = options_.member}});
}

void ConsumerMachine::Impl::SendClose(ConsumerEffects& out) {
  LOCKSTEP_DCHECK(state_ == State::kClosing && opened_.has_value());
  const Reached reached = order_->reached();
  out.requests.push_back({calls_.Add(Kind::kClose), CloseConsumer{.iteration = opened_->iteration,
                                                                  .consumer = opened_->consumer,
                                                                  .life = options_.life,
                                                                  .acks = order_->Acks(),
                                                                  .round = reached.round,
                                                                  .finished = reached.finished,
                                                                  .end = reached.end}});
}

void ConsumerMachine::Impl::Next(Time now, AskId ask, ConsumerEffects& out) {
  // Asking again says that what was handed out before has been used.
  if (options_.acknowledge_by_itself) order_->AcknowledgeHanded(now);
  asks_.Add(now, ask);
  const int64_t before = asks_.handed_out();
  Advance(now, out);
  // Behind the step: an ask that was answered at once has not waited.
  if (asks_.handed_out() == before && !asks_.empty()) asks_.CountStall();
}

void ConsumerMachine::Impl::Cancel(AskId ask, ConsumerEffects& out) {
  asks_.Cancel(ask, Cancelled("the request was cancelled"), out);
}

void ConsumerMachine::Impl::Acknowledge(Time now, const ElementPlace& place, ConsumerEffects& out) {
  // It may make room for the next element.
  if (order_->Acknowledge(now, place)) Advance(now, out);
}

void ConsumerMachine::Impl::Close(Time now, ConsumerEffects& out) {
  if (state_ == State::kClosing || state_ == State::kClosed) return;
  // At once, whatever becomes of the call: the program does not wait for the dispatcher.
  asks_.EndAll(Cancelled("the consumer was closed"), out);
  reads_.CancelAll(out);
  // There is nobody to take leave of. If `Open` had its effect after all, the lease ends.
  if (!opened_ || state_ == State::kFailed) {
    state_ = State::kClosed;
    out.closed = true;
    return;
  }
  state_ = State::kClosing;
  calls_.Expect(now);
  SendClose(out);
}

void ConsumerMachine::Impl::Fail(const ErrorPtr& why, ConsumerEffects& out) {
  // A null error means the end to those who ask, and that nothing failed to `failed`.
  LOCKSTEP_DCHECK(why != nullptr);
  if (state_ == State::kFailed || state_ == State::kClosed) return;
  state_ = State::kFailed;
  failure_ = why;
  reads_.CancelAll(out);
  asks_.EndAll(why, out);
}

void ConsumerMachine::Impl::Handle(Time now, ConsumerEvent event, ConsumerEffects& out) {
  std::visit([&](auto& what) { Take(now, what, out); }, event);
  Advance(now, out);
}

void ConsumerMachine::Impl::Take(Time now, DispatcherAnswered& event, ConsumerEffects& out) {
  const std::optional<CallInFlight> request = calls_.Take(event.request);
  // Answered before.
  if (!request) return;
  if (state_ == State::kClosed || state_ == State::kFailed) return;
  if (event.unavailable) {
    if (calls_.SilentFor(now) >= options_.give_up_after) {
      const ErrorPtr why = MakeError(absl::StatusCode::kUnavailable, reason::kUnavailable,
                                     absl::StrCat("the dispatcher did not answer for ",
                                                  absl::FormatDuration(calls_.SilentFor(now))));
      return Fail(why, out);
    }
    // Whether it had its effect does not matter: each request may come again, under the same life.
    return calls_.Retry(now);
  }
  calls_.NoteAnswer(now);
  if (request->kind == Kind::kClose) {
    state_ = State::kClosed;
    out.closed = true;
    return;
  }
  if (event.error != nullptr) {
    // Of a poll that was under way. What ends the machine is the answer to `CloseConsumer`.
    if (state_ == State::kClosing) return;
    return Fail(event.error, out);
  }
  if (auto* opened = std::get_if<IterationOpened>(&event.answer);
      opened != nullptr && request->kind == Kind::kOpen) {
    return TakeOpened(*opened);
  }
  auto* assignment = std::get_if<Assignment>(&event.answer);
  if (assignment == nullptr || state_ != State::kReading) return;
  // Before the answer is looked at: an old one, too, says that its reports have arrived.
  calls_.DropReports(*request);
  if (assignment_.Take(event.request, std::move(*assignment))) TakeAssignment(now, out);
}

void ConsumerMachine::Impl::TakeOpened(const IterationOpened& answer) {
  opened_ = answer;
  // `Open` was sent again, and both were answered.
  if (state_ != State::kOpening) return;
  state_ = State::kReading;
  order_->Begin(answer.index);
  // The first poll fetches the first assignment.
  polls_.Urgent();
}

void ConsumerMachine::Impl::TakeAssignment(Time now, ConsumerEffects& out) {
  // Before the lanes: the seatings say which of their segments are over.
  order_->TakeAssignment(*assignment_);
  if (assignment_.IsIn(Phase::kFailed) || assignment_.IsIn(Phase::kCollected)) {
    ErrorPtr error = assignment_->error;
    // A null error would not fail anybody.
    if (error == nullptr) {
      error = MakeError(absl::StatusCode::kAborted, reason::kIterationCollected,
                        "the iteration was collected");
    }
    return Fail(error, out);
  }
  if (assignment_.IsIn(Phase::kReading)) {
    // In other phases no lanes are listed, which does not mean that they are gone.
    LaneIntake(lanes_, reads_, *order_, polls_).Take(now, assignment_->lanes, out);
  }
  order_->LanesTaken();
}

void ConsumerMachine::Impl::Take(Time now, ReadAnswered& event, ConsumerEffects& /*out*/) {
  const LaneSegment* counted = reads_.Answered(now, event);
  if (counted != nullptr && order_->CountIsUrgent(*counted)) polls_.Urgent();
}

void ConsumerMachine::Impl::Take(Time now, ReadFailed& event, ConsumerEffects& out) {
  std::optional<SegmentFailure> failure = reads_.Failed(now, event);
  if (!failure) return;
  // A worker that answers has tried, and that counts against the segment; a silent one is avoided.
  if (!event.unreachable) {
    calls_.ReportFailure(*std::move(failure));
  } else if (calls_.ReportUnreachable(failure->worker)) {
    out.log.push_back(absl::StrCat("a worker cannot be reached: ",
                                   event.error == nullptr ? "" : event.error->message));
  }
  // The dispatcher has to name another worker before the program gets on.
  polls_.Urgent();
}

void ConsumerMachine::Impl::HandOutAll(Time now, ConsumerEffects& out) {
  LOCKSTEP_DCHECK(state_ == State::kReading);
  while (!asks_.empty()) {
    // In first come only the dispatcher knows when all was read.
    if (order_->reached().finished || assignment_.IsIn(Phase::kFinished)) {
      return asks_.EndAll(nullptr, out);
    }
    Delivery next = order_->Next(now);
    if (auto* hand = std::get_if<HandOut>(&next)) {
      asks_.Answer(std::move(*hand), out);
      continue;
    }
    if (std::holds_alternative<ReadToEnd>(next)) return asks_.EndAll(nullptr, out);
    if (auto* refused = std::get_if<Refused>(&next)) return asks_.EndAll(refused->why, out);
    if (auto* failed = std::get_if<Failed>(&next)) return Fail(failed->why, out);
    return;
  }
}

void ConsumerMachine::Impl::Advance(Time now, ConsumerEffects& out) {
  reads_.BeginStep(now);
  // Asks that came behind the end are answered as those before it.
  if (state_ == State::kFailed) asks_.EndAll(failure_, out);
  if (state_ == State::kClosing || state_ == State::kClosed) {
    asks_.EndAll(Cancelled("the consumer was closed"), out);
  }
  if (state_ != State::kReading) return;
  // What is handed out makes room for reads, and what is asked for decides what a poll says: so in
  // this order, and the polls last.
  HandOutAll(now, out);
  if (state_ == State::kReading && assignment_) {
    for (const LaneWish& wish : order_->Wishes()) {
      reads_.Plan(now, wish, assignment_->workers, out);
    }
  }
  // Before the polls, which it may make urgent.
  order_->EndStep(!asks_.empty());
  SendPolls(now, out);
  LOCKSTEP_DCHECK(lanes_.Holds());
  LOCKSTEP_DCHECK(reads_.Holds());
}

void ConsumerMachine::Impl::SendPolls(Time now, ConsumerEffects& out) {
  if (state_ != State::kReading || calls_.retrying()) return;
  // Nothing that is reported changes a reading that is over.
  if (assignment_.IsIn(Phase::kFinished)) return polls_.DropReports();
  // One is parked, where it waits for news; a second one carries what cannot wait for its answer.
  const size_t in_flight = calls_.polls();
  if (in_flight >= 2 || (in_flight == 1 && !polls_.IsDue(now))) return;
  LOCKSTEP_DCHECK(opened_.has_value());
  const int64_t number = polls_.Send();
  out.requests.push_back({calls_.Add(Kind::kPoll), MakePoll(number)});
  LOCKSTEP_DCHECK(calls_.polls() <= 2);
}

ConsumerPoll ConsumerMachine::Impl::MakePoll(int64_t number) const {
  const Reached reached = order_->reached();
  ConsumerPoll poll{.iteration = opened_->iteration,
                    .consumer = opened_->consumer,
                    .life = options_.life,
                    .number = number,
                    .wait = options_.poll_wait,
                    .unreachable = calls_.unreachable(),
                    .failures = calls_.failures(),
                    .round = reached.round,
                    .finished = reached.finished,
                    .end = reached.end,
                    .element_time = asks_.element_time()};
  // Without one the dispatcher answers at once, as to whoever has heard nothing.
  if (assignment_) {
    poll.service = assignment_->service;
    poll.after = assignment_->version;
  }
  order_->FillPoll(poll);
  poll.keeps_cursors = keeps_cursors_;
  poll.waits_for = WaitsFor();
  return poll;
}

void ConsumerMachine::Impl::ReachDeadline(Time now, ConsumerEffects& out) {
  if (calls_.TakeRetry(now)) {
    if (state_ == State::kOpening) SendOpen(out);
    if (state_ == State::kClosing) SendClose(out);
    // What the failed poll carried has to be said again.
    polls_.Urgent();
  }
  Advance(now, out);
}

Time ConsumerMachine::Impl::NextDeadline() const {
  if (state_ == State::kFailed || state_ == State::kClosed) return Time::Infinite();
  Time next = calls_.retry_at();
  if (state_ != State::kReading) return next;
  // Only where `SendPolls` would send: otherwise the timer would fire again and again for nothing.
  if (!calls_.retrying() && calls_.polls() < 2) next = std::min(next, polls_.report_at());
  return std::min(next, reads_.NextRetry());
}

std::optional<std::string> ConsumerMachine::Impl::CursorText(ErrorPtr& why) {
  const auto none = [&why](std::string message) {
    why = MakeError(absl::StatusCode::kFailedPrecondition, reason::kInvalidArgument,
                    std::move(message));
    return std::nullopt;
  };
  if (options_.spec.mode == Mode::kFirstCome) {
    return none("first come, first served has no cursor: what was acknowledged counts");
  }
  if (!options_.spec.sharding_is_dynamic()) {
    return none("a cursor is of segments that are shared out dynamically");
  }
  if (!assignment_) return none("the reading has not begun");
  // The next poll says so: in rounds the others then wait for this consumer when it is lost.
  keeps_cursors_ = true;
  return order_->CursorText(*assignment_);
}

ConsumerMachine::View ConsumerMachine::Impl::GetView() const {
  View view{.state = StateName(),
            .waits_for = WaitsFor(),
            .handed_out = asks_.handed_out(),
            .round = order_->reached().round,
            .buffered_bytes = lanes_.buffered_bytes(),
            .reads_in_flight = static_cast<int32_t>(reads_.in_flight()),
            .stalls = asks_.stalls()};
  order_->FillView(view);
  return view;
}

std::string ConsumerMachine::Impl::StateName() const {
  switch (state_) {
    case State::kIdle:
      return "idle";
    case State::kOpening:
      return "opening";
    case State::kReading:
      return order_->reached().finished ? "finished" : "reading";
    case State::kFailed:
      return "failed";
    case State::kClosing:
      return "closing";
    case State::kClosed:
      break;
  }
  return "closed";
}

std::string ConsumerMachine::Impl::WaitsFor() const {
  if (asks_.empty() || state_ != State::kReading) return "";
  if (!assignment_) return "the dispatcher";
  if (assignment_.IsIn(Phase::kResolving)) {
    if (!assignment_->waits_for.empty()) return assignment_->waits_for;
    return "the dataset's files to be listed";
  }
  // The order knows of waits that no segment ends.
  std::string special = order_->WaitsFor();
  return special.empty() ? lanes_.FirstMissing() : special;
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

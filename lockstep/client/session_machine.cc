#include "lockstep/client/session_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/server_list.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

using link::FrameType;
using link::KindOf;
using link::Message;
using wire::native::ReasonOf;
using wire::native::WithDetail;
using wire::native::WithReason;

// By how much the server is given less time than the caller: a tenth, at most this.
constexpr absl::Duration kServerMarginMax = absl::Milliseconds(200);

// protobuf takes the fields of a message in any order.
void AppendVarintField(uint32_t field, uint64_t value, std::string& out) {
  const auto append = [&out](uint64_t number) {
    for (; number >= 0x80; number >>= 7) out.push_back(static_cast<char>(number | 0x80));
    out.push_back(static_cast<char>(number));
  };
  append(uint64_t{field} << 3);
  append(value);
}

// With the time that is left.
std::string PayloadOf(const Call& call, Time now) {
  std::string payload = call.payload;
  if (call.timeout_field == 0 || call.deadline.is_infinite()) return payload;
  absl::Duration left = call.deadline - now;
  if (call.leave_server_a_margin) left -= std::min(left / 10, kServerMarginMax);
  const int64_t us = std::max<int64_t>(1, absl::ToInt64Microseconds(left));
  AppendVarintField(call.timeout_field, static_cast<uint64_t>(us), payload);
  return payload;
}

absl::StatusOr<std::string> AnswerOf(Message&& message) {
  if (message.type == FrameType::kAnswer) return std::move(message.payload);
  auto error = wire::native::Decode<wire::native::ErrorReply>(message.payload);
  return error.ok() ? wire::native::ToStatus(*error) : error.status();
}

// The coordinator of the job stops. Whether for good, its successor or the lack of one says.
bool ServerGoes(const absl::Status& status) { return ReasonOf(status) == "service_stopped"; }

}  // namespace

SessionMachine::SessionMachine(Options options)
    : options_(std::move(options)),
      link_({.server = options_.server,
             .grace = options_.grace,
             .backoff_first = options_.backoff_first,
             .backoff_last = options_.backoff_last,
             .seed = options_.seed,
             .id_seeds = options_.id_seeds}),
      calls_({.job = options_.job,
              .server = options_.server,
              .calls_max = options_.client_calls_max,
              .bytes_max = options_.client_call_bytes_max,
              .message_bytes_max = options_.message_bytes_max}),
      acks_(options_.answered_batch, options_.answered_interval),
      progress_(options_.progress_interval, options_.heartbeat_interval) {}

void SessionMachine::Start(Time now, Effects& out) {
  link_.Start(now);
  out.dial = true;
}

// --- Calls ---

void SessionMachine::Submit(Time now, Call&& call, Effects& out) {
  const RequestNumber number = ++last_number_;
  absl::Status refused = link_.ended() ? link_.why_ended() : calls_.CheckRoom(call, window_);
  if (refused.ok()) refused = membership_.WhyRefused(call.type);
  if (refused.ok() && call.deadline <= now) {
    refused =
        WithReason(absl::DeadlineExceededError(absl::StrCat("no time was given for ", call.what,
                                                            ": the timeout is not above zero")),
                   "deadline_exceeded");
  }
  const CallType type = call.type;
  if (type == CallType::kEffect) acks_.Began(number);
  calls_.Add(now, number, std::move(call));
  if (!refused.ok()) return Complete(now, number, std::move(refused), out);
  const std::string* opened = link_.opened();
  if (type == CallType::kOpen && opened != nullptr) return Complete(now, number, *opened, out);
  Pump(now, out);
}

void SessionMachine::Cancel(Time now, Ticket ticket, Effects& out) {
  const auto number = calls_.NumberOf(ticket);
  if (!number) return;
  const std::string text =
      absl::StrCat("the wait for ", calls_.at(*number).call.what, " was cancelled");
  GiveUp(now, *number, WithReason(absl::CancelledError(text), "cancelled"), out);
}

void SessionMachine::Complete(Time now, RequestNumber number, absl::StatusOr<std::string>&& answer,
                              Effects& out) {
  acks_.Over(number);
  out.completed.push_back(calls_.Complete(now, number, std::move(answer)));
}

void SessionMachine::GiveUp(Time now, RequestNumber number, absl::Status why, Effects& out) {
  LOCKSTEP_DCHECK(!why.ok());
  const bool sent = calls_.Sent(number);
  LOCKSTEP_DCHECK(!sent || link_.open());
  if (sent) {
    window_.Abandon(number);
    out.send.push_back({.type = FrameType::kCancel, .id = number});
  }
  Complete(now, number, std::move(why), out);
}

void SessionMachine::Pump(Time now, Effects& out) {
  if (!link_.open()) return;
  while (window_.HasRoom()) {
    const auto [number, call] = calls_.TakeUnsent();
    if (call == nullptr) return;
    Send(call->kind, number, PayloadOf(*call, now), out);
  }
}

void SessionMachine::Send(link::RequestKind kind, RequestNumber number, std::string&& payload,
                          Effects& out) {
  LOCKSTEP_DCHECK(link_.open());  // requests go over an open session only
  window_.Sent();
  out.send.push_back({.type = FrameType::kRequest,
                      .must_understand = true,
                      .kind = kind,
                      .id = number,
                      .payload = std::move(payload)});
}

// --- Answers ---

void SessionMachine::Take(Time now, Message&& message, Effects& out) {
  if (link_.ended()) return;
  if (link_.open() && shared_.Take(message, window_.max())) return;
  if (message.type != FrameType::kAnswer && message.type != FrameType::kError) {
    out.drop_link = true;
    return Redial(
        now,
        absl::InternalError(absl::StrFormat("%s sent a frame of type %d where an answer "
                                            "was due",
                                            options_.server, static_cast<int>(message.type))),
        out);
  }
  const RequestNumber number = message.id;
  absl::StatusOr<std::string> answer = AnswerOf(std::move(message));
  if (link_.opens_with(number)) return TakeOpened(now, std::move(answer), out);
  for (const RequestNumber other : shared_.OthersOf(number)) {
    TakeAnswer(now, other, absl::StatusOr<std::string>(answer), out);
  }
  TakeAnswer(now, number, std::move(answer), out);
  Pump(now, out);
}

void SessionMachine::TakeAnswer(Time now, RequestNumber number,
                                absl::StatusOr<std::string>&& answer, Effects& out) {
  if (!link_.open()) return;  // an answer before this one may have ended it
  if (progress_.TakeAnswer(number)) return window_.Answered();  // how it was taken, the poll says
  if (membership_.TakePollAnswer(number)) {
    window_.Answered();
    return TakePoll(now, answer, out);
  }
  if (window_.TakeAbandoned(number) || !calls_.Sent(number)) return;
  // The call is not completed: the next server is asked again.
  if (!answer.ok() && ServerGoes(answer.status())) {
    out.drop_link = true;
    return Redial(now, answer.status(), out);
  }
  window_.Answered();
  const Call& call = calls_.at(number).call;
  const bool effect = call.type == CallType::kEffect;
  const bool joins = answer.ok() && call.kind == KindOf<wire::native::JoinJob>::kKind;
  const bool leaves = answer.ok() && call.kind == KindOf<wire::native::LeaveJob>::kKind;
  Complete(now, number, std::move(answer), out);
  if (effect) {
    acks_.Answered(now, number);
    if (acks_.batch_full()) Acknowledge(now, out);
  }
  if (joins) {
    membership_.Join();
    progress_.Begin(now);
    Poll(out);
  }
  if (leaves) Leave(now, out);
}

void SessionMachine::TakePoll(Time now, const absl::StatusOr<std::string>& answer, Effects& out) {
  if (answer.ok() || !membership_.joined()) return;  // nothing else says "left"
  if (ServerGoes(answer.status())) {
    out.drop_link = true;
    return Redial(now, answer.status(), out);
  }
  if (ReasonOf(answer.status()) == "member_left") return;
  Fail(now, answer.status(), out);
}

void SessionMachine::Fail(Time now, const absl::Status& why, Effects& out) {
  const absl::Status failure =
      WithDetail(WithDetail(why, "job", options_.job), "server", options_.server);
  if (!membership_.Fail(failure)) return;
  out.failed = failure;
  progress_.Stop();
  const auto waits = calls_.Select([](const Call& call) { return call.type == CallType::kWait; });
  for (const RequestNumber number : waits) GiveUp(now, number, why, out);
}

// Whoever left has no part in the job any more, also not as one who looks on: a watch that went on
// would keep the session, and the process that thinks it is done.
void SessionMachine::Leave(Time now, Effects& out) {
  const std::string text = absl::StrCat("this member has left job '", options_.job, "'");
  progress_.Stop();
  membership_.Leave(WithReason(absl::FailedPreconditionError(text), "member_left"));
  const absl::Status ended = WithReason(absl::CancelledError(text), "member_left");
  const auto waits = calls_.Select([](const Call& call) { return Parks(call.type); });
  for (const RequestNumber number : waits) GiveUp(now, number, ended, out);
}

// --- Links ---

void SessionMachine::LinkReady(Time now, size_t requests_in_flight_max, size_t message_bytes_max,
                               Effects& out) {
  if (requests_in_flight_max > 0) window_.SetMax(requests_in_flight_max);
  if (message_bytes_max > 0) {
    for (auto& [number, status] : calls_.SetMessageBytesMax(message_bytes_max)) {
      Complete(now, number, std::move(status), out);
    }
  }
  const RequestNumber number = ++last_number_;
  wire::native::OpenSession open = link_.Ready(number);
  open.job = options_.job;
  open.create_size = options_.create_size;
  open.fan_out_port = options_.fan_out_port;
  // It is alone on the link until it is answered, so the window does not count it.
  out.send.push_back({.type = FrameType::kRequest,
                      .must_understand = true,
                      .kind = KindOf<wire::native::OpenSession>::kKind,
                      .id = number,
                      .payload = wire::native::Encode(open)});
}

void SessionMachine::LinkLost(Time now, const absl::Status& why, Effects& out) {
  if (!link_.up()) return;
  if (link_.IsHopeless(why)) return End(now, why, out);
  Redial(now, why, out);
}

void SessionMachine::Redial(Time now, const absl::Status& why, Effects& out) {
  window_.LinkLost();
  shared_.LinkLost();
  membership_.LinkLost();
  progress_.LinkLost();
  calls_.LinkLost();
  if (link_.open()) {
    out.server_news =
        absl::StrCat(runtime::TheServer(options_.server),
                     runtime::AreServers(options_.server) ? " are" : " is", " unreachable (",
                     why.message(), "); calls wait for it, at most ", WaitText(options_.grace));
  }
  if (link_.Lost(now, why)) out.dial = true;
}

void SessionMachine::TakeOpened(Time now, absl::StatusOr<std::string> answer, Effects& out) {
  if (answer.ok()) {
    if (link_.opened_once()) {
      out.server_news = absl::StrCat(runtime::OneServer(options_.server), " is back after ",
                                     WaitText(now - link_.down_since()));
    }
    link_.Opened(now, *answer);
    const auto openings =
        calls_.Select([](const Call& call) { return call.type == CallType::kOpen; });
    for (const RequestNumber number : openings) Complete(now, number, *answer, out);
    if (membership_.reports()) {
      Poll(out);
      progress_.Resume();
      ReportProgress(now, out);
    }
    // Behind our own: the server sees the member before what it asks for.
    return Pump(now, out);
  }
  const absl::Status& why = answer.status();
  const std::string reason = ReasonOf(why);
  out.drop_link = true;
  if (absl::IsUnavailable(why) || absl::IsResourceExhausted(why) || ServerGoes(why) ||
      reason == "shutting_down") {
    return Redial(now, why, out);
  }
  if (reason != "unknown_session") return End(now, why, out);
  const auto joins = calls_.Select(
      [](const Call& call) { return call.kind == KindOf<wire::native::JoinJob>::kKind; });
  if (!joins.empty() && !acks_.any_open()) {
    // Nobody has been told anything yet: a new conversation is as good.
    link_.Renew();
    return Redial(now, why, out);
  }
  const std::string text =
      absl::StrCat(runtime::OneServer(options_.server),
                   " does not know this session any more: it was started without its former "
                   "state, or has forgotten who was away for too long; join again (",
                   why.message(), ")");
  End(now, WithReason(absl::Status(why.code(), text), reason), out);
}

void SessionMachine::End(Time now, const absl::Status& why, Effects& out) {
  link_.End(why);
  out.drop_link = true;
  for (const RequestNumber number : calls_.Select([](const Call&) { return true; })) {
    Complete(now, number, why, out);
  }
  Fail(now, why, out);
}

void SessionMachine::Close(Time now, Effects& out) {
  if (link_.ended()) return;
  if (link_.open()) {
    Send(KindOf<wire::native::CloseSession>::kKind, ++last_number_, "", out);
    out.farewell = true;
  } else {
    out.drop_link = true;
  }
  const absl::Status why =
      WithReason(absl::CancelledError("the member or session was destroyed"), "session_closed");
  progress_.Stop();
  link_.End(why);
  for (const RequestNumber number : calls_.Select([](const Call&) { return true; })) {
    Complete(now, number, why, out);
  }
}

// --- The session's own requests ---

void SessionMachine::Poll(Effects& out) {
  const RequestNumber number = membership_.Poll(++last_number_);
  Send(KindOf<wire::native::PollForError>::kKind, number, "", out);
}

void SessionMachine::Progress(Time now, int64_t step, std::string_view phase, Effects& out) {
  progress_.Note(step, phase);
  if (now >= progress_.Due()) ReportProgress(now, out);
}

void SessionMachine::ReportProgress(Time now, Effects& out) {
  const RequestNumber number = ++last_number_;
  Send(KindOf<wire::native::ReportProgress>::kKind, number,
       wire::native::Encode(progress_.Report(now, number)), out);
}

void SessionMachine::Acknowledge(Time now, Effects& out) {
  const auto through = acks_.Report(now);
  if (!through) return;
  const wire::native::Answered answered = {.through = *through};
  out.send.push_back({.type = FrameType::kAnswered, .payload = wire::native::Encode(answered)});
}

// --- Time ---

Time SessionMachine::NextDeadline() const {
  if (link_.ended()) return Time::Infinite();
  Time next = std::min({calls_.NextDeadline(), link_.NextDeadline(), progress_.Due()});
  if (link_.open()) next = std::min(next, acks_.Due());
  return next;
}

void SessionMachine::ReachDeadline(Time now, Effects& out) {
  if (link_.ended()) return;
  // First: a call whose deadline comes with the end of the grace has timed out.
  while (const auto number = calls_.TimedOut(now)) {
    const SessionCalls::Entry& entry = calls_.at(*number);
    const std::string text = absl::StrCat("time is up: waited ", WaitText(now - entry.since),
                                          " for ", entry.call.what, "; ", link_.Describe(now));
    GiveUp(now, *number, WithReason(absl::DeadlineExceededError(text), "deadline_exceeded"), out);
  }
  if (absl::Status lost = link_.GraceOver(now); !lost.ok()) return End(now, lost, out);
  if (link_.RedialDue(now)) out.dial = true;
  if (now >= progress_.Due()) ReportProgress(now, out);
  if (link_.open() && now >= acks_.Due()) Acknowledge(now, out);
}

}  // namespace lockstep::client

#include "lockstep/client/session_machine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::client {
namespace {

using link::FrameType;
using link::KindOf;
using link::Message;
using wire::native::ReasonOf;
using wire::native::WithDetail;
using wire::native::WithReason;

// Of a link's requests, those left for our own (heartbeats, the poll) and for what ends waits.
constexpr size_t kOwnRequests = 8;
constexpr size_t kRequestsBesideWaits = 128;
// What may be added to a request before it is sent: its time-out.
constexpr size_t kAddedBytes = 16;
// A link that broke sooner than this counts as failures to connect, of which it is taken for so
// many: a server that breaks every link is not called in a tight circle, and one that dies twice in
// a row is found again soon.
constexpr absl::Duration kGoodLink = absl::Seconds(1);
constexpr int kAttemptsOfBadLink = 2;
// By how much the server is given less time than the caller: a tenth, at most this.
constexpr absl::Duration kServerHurryMax = absl::Milliseconds(200);

// As the server's label_bytes_max, over which it takes nothing of a report.
constexpr size_t kPhaseBytesMax = 256;

std::string Shortened(std::string_view phase) {
  std::string text = wire::native::ToUtf8(phase);
  if (text.size() <= kPhaseBytesMax) return text;
  size_t end = kPhaseBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text;
}

bool Parks(CallType type) { return type == CallType::kWait || type == CallType::kWatch; }

std::string Text(absl::Duration duration) {
  const auto unit = duration >= absl::Seconds(10) ? absl::Seconds(1) : absl::Milliseconds(1);
  return absl::FormatDuration(absl::Trunc(duration, unit));
}

// protobuf takes the fields of a message in any order.
void AppendVarintField(uint32_t field, uint64_t value, std::string& out) {
  const auto append = [&out](uint64_t number) {
    for (; number >= 0x80; number >>= 7) out.push_back(static_cast<char>(number | 0x80));
    out.push_back(static_cast<char>(number));
  };
  append(uint64_t{field} << 3);
  append(value);
}

absl::StatusOr<std::string> AnswerOf(Message message) {
  if (message.type == FrameType::kAnswer) return std::move(message.payload);
  auto error = wire::native::Decode<wire::native::ErrorReply>(message.payload);
  return error.ok() ? wire::native::ToStatus(*error) : error.status();
}

}  // namespace

SessionMachine::SessionMachine(Options options)
    : options_(std::move(options)),
      message_bytes_max_(options_.message_bytes_max),
      random_(options_.seed) {
  for (int half = 0; half < 2; ++half) {
    const uint64_t bits = Draw();
    for (int byte = 0; byte < 8; ++byte) session_.push_back(static_cast<char>(bits >> (8 * byte)));
  }
}

// splitmix64
uint64_t SessionMachine::Draw() {
  uint64_t z = (random_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void SessionMachine::Start(Time now, Effects& out) {
  down_since_ = now;
  stage_ = Stage::kDialing;
  attempts_ = 1;
  out.dial = true;
}

// --- Calls ---

size_t SessionMachine::CallWindow() const {
  return window_ > 2 * kOwnRequests ? window_ - kOwnRequests : 1;
}

size_t SessionMachine::WaitWindow() const {
  return window_ - std::min(window_ / 2, kRequestsBesideWaits);
}

// The server would close the link over it, again and again.
absl::Status SessionMachine::CheckSize(const Call& call) const {
  const size_t bytes = call.payload.size() + kAddedBytes;
  if (bytes <= message_bytes_max_) return absl::OkStatus();
  return WithReason(absl::ResourceExhaustedError(absl::StrFormat(
                        "%s: the request has %d bytes, %d are allowed (message_bytes_max): give "
                        "less at a time, or keep it in a file and share its name",
                        call.what, bytes, message_bytes_max_)),
                    "limit_exceeded");
}

// What was let in before the server said what it takes.
void SessionMachine::RefuseTooLarge(Time now, Effects& out) {
  std::vector<std::pair<Number, absl::Status>> refused;
  for (const auto& [number, entry] : calls_) {
    if (absl::Status status = CheckSize(entry.call); !status.ok()) {
      refused.emplace_back(number, std::move(status));
    }
  }
  for (auto& [number, status] : refused) Complete(now, number, std::move(status), out);
}

absl::Status SessionMachine::CheckRoom(const Call& call) const {
  const auto full = [](std::string text) {
    return WithReason(absl::ResourceExhaustedError(std::move(text)), "limit_exceeded");
  };
  if (absl::Status status = CheckSize(call); !status.ok()) return status;
  if (calls_.size() >= options_.client_calls_max) {
    return full(absl::StrFormat("%d calls wait for their answers already (client_calls_max)",
                                calls_.size()));
  }
  if (call_bytes_ + call.payload.size() > options_.client_call_bytes_max) {
    return full(
        absl::StrFormat("requests of %d bytes wait for their answers already, and %d more "
                        "are over client_call_bytes_max (%d)",
                        call_bytes_, call.payload.size(), options_.client_call_bytes_max));
  }
  if (Parks(call.type) && waits_ >= WaitWindow()) {
    return full(
        absl::StrFormat("%d calls are parked at the server already, and it takes %d "
                        "requests of one client at a time (requests_in_flight_max)",
                        waits_, window_));
  }
  return absl::OkStatus();
}

void SessionMachine::Submit(Time now, Call call, Effects& out) {
  const Number number = ++last_number_;
  absl::Status refused = stage_ == Stage::kEnded ? why_ended_ : CheckRoom(call);
  if (refused.ok()) refused = left_;
  if (refused.ok() && call.type == CallType::kWait) refused = failed_;
  if (refused.ok() && call.deadline <= now) {
    refused =
        WithReason(absl::DeadlineExceededError(absl::StrCat("no time was given for ", call.what,
                                                            ": the timeout is not above zero")),
                   "deadline_exceeded");
  }
  numbers_[call.ticket] = number;
  call_bytes_ += call.payload.size();
  if (Parks(call.type)) ++waits_;
  if (call.type == CallType::kEffect) effects_open_.insert(number);
  if (!call.deadline.is_infinite()) deadlines_.emplace(call.deadline, number);
  const bool opens = call.type == CallType::kOpen;
  calls_.emplace(number, Entry{.call = std::move(call), .since = now});
  if (!refused.ok()) return Complete(now, number, std::move(refused), out);
  if (opens) {
    if (stage_ == Stage::kOpen) Complete(now, number, opened_, out);
    return;
  }
  unsent_.push_back(number);
  Pump(now, out);
}

void SessionMachine::Cancel(Time now, Ticket ticket, Effects& out) {
  const auto it = numbers_.find(ticket);
  if (it == numbers_.end()) return;
  const std::string what = calls_.at(it->second).call.what;
  GiveUp(now, it->second,
         WithReason(absl::CancelledError(absl::StrCat("the wait for ", what, " was cancelled")),
                    "cancelled"),
         out);
}

void SessionMachine::Complete(Time now, Number number, absl::StatusOr<std::string> answer,
                              Effects& out) {
  auto node = calls_.extract(number);
  LOCKSTEP_CHECK(!node.empty());
  const Entry& entry = node.mapped();
  const Call& call = entry.call;
  numbers_.erase(call.ticket);
  call_bytes_ -= call.payload.size();
  if (Parks(call.type)) --waits_;
  deadlines_.erase({call.deadline, number});
  effects_open_.erase(number);
  if (!answer.ok()) answer = Decorate(now, entry, answer.status());
  out.completed.push_back({call.ticket, std::move(answer)});
}

void SessionMachine::GiveUp(Time now, Number number, absl::Status why, Effects& out) {
  if (calls_.at(number).sent) {
    abandoned_.insert(number);
    out.send.push_back({.type = FrameType::kCancel, .id = number});
  }
  Complete(now, number, std::move(why), out);
}

absl::Status SessionMachine::Decorate(Time now, const Entry& entry, absl::Status status) const {
  status = WithDetail(std::move(status), "job", options_.job);
  status = WithDetail(std::move(status), "server", options_.server);
  status = WithDetail(std::move(status), "request", entry.call.what);
  return WithDetail(std::move(status), "waited_ms",
                    absl::StrCat(absl::ToInt64Milliseconds(now - entry.since)));
}

void SessionMachine::Pump(Time now, Effects& out) {
  if (stage_ != Stage::kOpen) return;
  while (!unsent_.empty() && in_flight_ < CallWindow()) {
    const Number number = unsent_.front();
    unsent_.pop_front();
    const auto it = calls_.find(number);
    if (it != calls_.end()) SendCall(now, number, it->second, out);
  }
}

void SessionMachine::SendCall(Time now, Number number, Entry& entry, Effects& out) {
  const Call& call = entry.call;
  std::string payload = call.payload;
  if (call.timeout_field != 0 && !call.deadline.is_infinite()) {
    absl::Duration left = call.deadline - now;
    if (call.hurry_server) left -= std::min(left / 10, kServerHurryMax);
    const int64_t us = std::max<int64_t>(1, absl::ToInt64Microseconds(left));
    AppendVarintField(call.timeout_field, static_cast<uint64_t>(us), payload);
  }
  entry.sent = true;
  Send(call.kind, number, std::move(payload), out);
}

void SessionMachine::Send(link::RequestKind kind, Number number, std::string payload,
                          Effects& out) {
  ++in_flight_;
  out.send.push_back({.type = FrameType::kRequest,
                      .must_understand = true,
                      .kind = kind,
                      .id = number,
                      .payload = std::move(payload)});
}

// --- Answers ---

void SessionMachine::Take(Time now, Message message, Effects& out) {
  if (stage_ == Stage::kEnded) return;
  if (message.type != FrameType::kAnswer && message.type != FrameType::kError) {
    out.drop_link = true;
    return Redial(
        now,
        absl::InternalError(absl::StrFormat("%s sent a frame of type %d where an answer "
                                            "was due",
                                            options_.server, static_cast<int>(message.type))),
        out);
  }
  if (stage_ == Stage::kOpening && message.id == open_number_) {
    return TakeOpened(now, std::move(message), out);
  }
  if (stage_ != Stage::kOpen) return;
  const Number number = message.id;
  if (number == progress_ && number != 0) {
    progress_ = 0;  // how it was taken is the poll's to say
    --in_flight_;
  } else if (number == poll_ && number != 0) {
    --in_flight_;
    TakePoll(now, message, out);
  } else if (abandoned_.erase(number) > 0) {
    --in_flight_;
  } else if (const auto it = calls_.find(number); it != calls_.end() && it->second.sent) {
    auto answer = AnswerOf(std::move(message));
    if (!answer.ok() && ServerGoes(now, answer.status(), out)) return;
    --in_flight_;
    const link::RequestKind kind = it->second.call.kind;
    const bool effect = it->second.call.type == CallType::kEffect;
    const bool ok = answer.ok();
    Complete(now, number, std::move(answer), out);
    if (effect) NoteAnswered(now, number, out);
    if (ok && kind == KindOf<wire::native::JoinJob>::kKind) {
      joined_ = true;
      last_progress_ = now;
      Send(KindOf<wire::native::PollForError>::kKind, poll_ = ++last_number_, "", out);
    }
    if (ok && kind == KindOf<wire::native::LeaveJob>::kKind) Left(now, out);
  }
  Pump(now, out);
}

// The coordinator of the job stops. Whether for good, its successor or the lack of one says.
bool SessionMachine::ServerGoes(Time now, const absl::Status& status, Effects& out) {
  if (ReasonOf(status) != "service_stopped") return false;
  out.drop_link = true;
  Redial(now, status, out);
  return true;
}

void SessionMachine::TakePoll(Time now, const Message& message, Effects& out) {
  poll_ = 0;
  const auto answer = AnswerOf(message);
  if (answer.ok() || !joined_) return;  // nothing else says "left"
  if (ServerGoes(now, answer.status(), out)) return;
  if (ReasonOf(answer.status()) == "member_left") return;
  Fail(now, answer.status(), out);
}

void SessionMachine::Fail(Time now, const absl::Status& why, Effects& out) {
  if (!failed_.ok()) return;
  failed_ = WithDetail(WithDetail(why, "job", options_.job), "server", options_.server);
  out.failed = failed_;
  std::vector<Number> waits;
  for (const auto& [number, entry] : calls_) {
    if (entry.call.type == CallType::kWait) waits.push_back(number);
  }
  for (Number number : waits) GiveUp(now, number, why, out);
}

// Whoever left has no part in the job any more, also not as one who looks on: a watch that went on
// would keep the session, and the process that thinks it is done.
void SessionMachine::Left(Time now, Effects& out) {
  joined_ = false;
  const std::string text = absl::StrCat("this member has left job '", options_.job, "'");
  left_ = WithReason(absl::FailedPreconditionError(text), "member_left");
  std::vector<Number> waits;
  for (const auto& [number, entry] : calls_) {
    if (Parks(entry.call.type)) waits.push_back(number);
  }
  const absl::Status ended = WithReason(absl::CancelledError(text), "member_left");
  for (Number number : waits) GiveUp(now, number, ended, out);
}

void SessionMachine::NoteAnswered(Time now, Number number, Effects& out) {
  effects_last_ = std::max(effects_last_, number);
  if (unreported_++ == 0) unreported_since_ = now;
  if (unreported_ >= options_.answered_batch) SendAnswered(now, out);
}

void SessionMachine::SendAnswered(Time now, Effects& out) {
  unreported_since_ = now;
  unreported_ = 0;
  const Number through = effects_open_.empty() ? effects_last_ : *effects_open_.begin() - 1;
  if (through <= answered_through_) return;
  answered_through_ = through;
  out.send.push_back({.type = FrameType::kAnswered,
                      .payload = wire::native::Encode(wire::native::Answered{.through = through})});
}

// --- Links ---

void SessionMachine::LinkReady(Time now, size_t requests_in_flight_max, size_t message_bytes_max,
                               Effects& out) {
  LOCKSTEP_CHECK(stage_ == Stage::kDialing);
  stage_ = Stage::kOpening;
  if (requests_in_flight_max > 0) window_ = requests_in_flight_max;
  if (message_bytes_max > 0) message_bytes_max_ = message_bytes_max;
  RefuseTooLarge(now, out);
  open_number_ = ++last_number_;
  const wire::native::OpenSession open = {.session = {session_},
                                          .job = options_.job,
                                          .resume = opened_once_,
                                          .create_size = options_.create_size};
  out.send.push_back({.type = FrameType::kRequest,
                      .must_understand = true,
                      .kind = KindOf<wire::native::OpenSession>::kKind,
                      .id = open_number_,
                      .payload = wire::native::Encode(open)});
}

void SessionMachine::LinkLost(Time now, const absl::Status& why, Effects& out) {
  if (stage_ == Stage::kEnded || stage_ == Stage::kDown) return;
  const std::string reason = ReasonOf(why);
  const bool misfit =
      reason == "version" || reason == "not_allowed" || absl::IsInvalidArgument(why);
  if (!opened_once_ && misfit) return End(now, why, out);
  Redial(now, why, out);
}

void SessionMachine::Redial(Time now, const absl::Status& why, Effects& out) {
  if (stage_ == Stage::kOpen) {
    down_since_ = now;
    attempts_ = now - opened_at_ >= kGoodLink ? 0 : kAttemptsOfBadLink;
  }
  last_failure_ = why;
  abandoned_.clear();
  in_flight_ = 0;
  poll_ = progress_ = 0;
  unsent_.clear();
  for (auto& [number, entry] : calls_) {
    entry.sent = false;
    if (entry.call.type != CallType::kOpen) unsent_.push_back(number);
  }
  if (attempts_++ == 0) {
    stage_ = Stage::kDialing;
    out.dial = true;
    return;
  }
  const int doublings = std::min(attempts_ - 2, 20);
  const absl::Duration whole =
      std::min(options_.backoff_first * (int64_t{1} << doublings), options_.backoff_last);
  const double part =
      0.5 + 0.5 * static_cast<double>(Draw() >> 11) / static_cast<double>(1ull << 53);
  stage_ = Stage::kDown;
  redial_at_ = now + whole * part;
}

void SessionMachine::TakeOpened(Time now, Message message, Effects& out) {
  auto answer = AnswerOf(std::move(message));
  if (answer.ok()) return Opened(now, *answer, out);
  const absl::Status& why = answer.status();
  const std::string reason = ReasonOf(why);
  if (absl::IsUnavailable(why) || absl::IsResourceExhausted(why) || reason == "service_stopped" ||
      reason == "shutting_down") {
    out.drop_link = true;
    return Redial(now, why, out);
  }
  const bool joining = std::any_of(calls_.begin(), calls_.end(), [](const auto& entry) {
    return entry.second.call.kind == KindOf<wire::native::JoinJob>::kKind;
  });
  if (reason == "unknown_session" && joining && effects_open_.empty()) {
    // Nobody has been told anything yet: a new conversation is as good.
    const uint64_t bits = Draw();
    for (int byte = 0; byte < 8; ++byte) session_[byte] = static_cast<char>(bits >> (8 * byte));
    opened_once_ = false;
    out.drop_link = true;
    return Redial(now, why, out);
  }
  if (reason != "unknown_session") return End(now, why, out);
  End(now,
      WithReason(absl::Status(why.code(),
                              absl::StrCat("the server at ", options_.server,
                                           " does not know this session any more: it was started "
                                           "without its former state, or has forgotten who was "
                                           "away for too long; join again (",
                                           why.message(), ")")),
                 reason),
      out);
}

void SessionMachine::Opened(Time now, const std::string& payload, Effects& out) {
  stage_ = Stage::kOpen;
  opened_once_ = true;
  opened_ = payload;
  opened_at_ = now;
  std::vector<Number> openings;
  for (const auto& [number, entry] : calls_) {
    if (entry.call.type == CallType::kOpen) openings.push_back(number);
  }
  for (Number number : openings) Complete(now, number, payload, out);
  if (joined_ && failed_.ok()) {
    Send(KindOf<wire::native::PollForError>::kKind, poll_ = ++last_number_, "", out);
    progress_dirty_ = true;
    SendProgress(now, out);
  }
  Pump(now, out);
}

std::string SessionMachine::Link(Time now) const {
  if (stage_ == Stage::kOpen) return absl::StrCat("connected to the server at ", options_.server);
  return absl::StrCat("the server at ", options_.server,
                      opened_once_ ? " has been away for " : " has not been reached for ",
                      Text(now - down_since_),
                      last_failure_.ok() ? "" : absl::StrCat(" (", last_failure_.message(), ")"));
}

void SessionMachine::End(Time now, const absl::Status& why, Effects& out) {
  stage_ = Stage::kEnded;
  why_ended_ = why;
  out.drop_link = true;
  unsent_.clear();
  while (!calls_.empty()) Complete(now, calls_.begin()->first, why, out);
  Fail(now, why, out);
}

void SessionMachine::Close(Time now, Effects& out) {
  if (stage_ == Stage::kEnded) return;
  if (stage_ == Stage::kOpen) {
    Send(KindOf<wire::native::CloseSession>::kKind, ++last_number_, "", out);
    out.farewell = true;
  } else {
    out.drop_link = true;
  }
  stage_ = Stage::kEnded;
  why_ended_ =
      WithReason(absl::CancelledError("the member or session was destroyed"), "session_closed");
  unsent_.clear();
  while (!calls_.empty()) Complete(now, calls_.begin()->first, why_ended_, out);
}

// --- Time ---

void SessionMachine::Progress(Time now, int64_t step, std::string_view phase, Effects& out) {
  if (step >= 0) step_ = step;
  if (!phase.empty()) phase_ = Shortened(phase);
  progress_dirty_ = true;
  if (now >= ProgressDue()) SendProgress(now, out);
}

void SessionMachine::SendProgress(Time now, Effects& out) {
  wire::native::ReportProgress report;
  if (std::exchange(progress_dirty_, false)) {
    if (step_ >= 0) report.step = step_;
    report.phase = phase_;
  }
  last_progress_ = now;
  Send(KindOf<wire::native::ReportProgress>::kKind, progress_ = ++last_number_,
       wire::native::Encode(report), out);
}

Time SessionMachine::ProgressDue() const {
  if (stage_ != Stage::kOpen || !joined_ || !failed_.ok() || progress_ != 0) {
    return Time::Infinite();
  }
  return last_progress_ +
         (progress_dirty_ ? options_.progress_interval : options_.heartbeat_interval);
}

Time SessionMachine::AnsweredDue() const {
  if (stage_ != Stage::kOpen || unreported_ == 0) return Time::Infinite();
  return unreported_since_ + options_.answered_interval;
}

Time SessionMachine::NextDeadline() const {
  if (stage_ == Stage::kEnded) return Time::Infinite();
  Time next = std::min(ProgressDue(), AnsweredDue());
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  if (stage_ == Stage::kDown) next = std::min(next, redial_at_);
  if (stage_ != Stage::kOpen && opened_once_) next = std::min(next, down_since_ + options_.grace);
  return next;
}

void SessionMachine::ReachDeadline(Time now, Effects& out) {
  if (stage_ == Stage::kEnded) return;
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const Number number = deadlines_.begin()->second;
    const Entry& entry = calls_.at(number);
    GiveUp(now, number,
           WithReason(absl::DeadlineExceededError(absl::StrCat("time is up: waited ",
                                                               Text(now - entry.since), " for ",
                                                               entry.call.what, "; ", Link(now))),
                      "deadline_exceeded"),
           out);
  }
  if (stage_ != Stage::kOpen && opened_once_ && now >= down_since_ + options_.grace) {
    return End(now,
               WithReason(absl::UnavailableError(
                              absl::StrCat(Link(now), " in ", attempts_, " attempts; the grace of ",
                                           Text(options_.grace),
                                           " is over, and with it this membership: look "
                                           "whether the server runs, and join again")),
                          "server_lost"),
               out);
  }
  if (stage_ == Stage::kDown && now >= redial_at_) {
    stage_ = Stage::kDialing;
    redial_at_ = Time::Infinite();
    out.dial = true;
  }
  if (now >= ProgressDue()) SendProgress(now, out);
  if (now >= AnsweredDue()) SendAnswered(now, out);
}

}  // namespace lockstep::client

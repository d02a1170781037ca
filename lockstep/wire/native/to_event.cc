#include "lockstep/wire/native/to_event.h"

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/limits.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/from_view.h"
#include "lockstep/wire/native/unknown_request.h"

namespace lockstep::wire::native {
namespace {

using EventOr = absl::StatusOr<coord::Event>;

constexpr size_t kSessionBytes = 16;
constexpr int32_t kStatusCodeMax = 16;
static_assert(kSessionBytes == sizeof(SessionId::high) + sizeof(SessionId::low));
static_assert(kStatusCodeMax == static_cast<int32_t>(absl::StatusCode::kUnauthenticated));

absl::Status Invalid(std::string_view text) {
  return WithReason(absl::InvalidArgumentError(std::string(text)), "invalid_argument");
}

// On the wire 0 says that there is no limit.
absl::StatusOr<absl::Duration> SpanOf(std::string_view what, int64_t microseconds) {
  if (microseconds < 0) {
    return Invalid(absl::StrFormat("%s of %d us: it must be above zero; none at all is for ever",
                                   what, microseconds));
  }
  return microseconds == 0 ? absl::InfiniteDuration() : absl::Microseconds(microseconds);
}

absl::StatusOr<coord::KeyLifetime> LifetimeOf(int64_t ttl_us, bool with_member) {
  auto ttl = SpanOf("ttl", ttl_us);
  if (!ttl.ok()) return ttl.status();
  return coord::KeyLifetime{.ttl = *ttl, .with_member = with_member};
}

std::vector<MemberIndex> MembersOf(const std::vector<int32_t>& members) {
  std::vector<MemberIndex> out;
  out.reserve(members.size());
  for (const int32_t member : members) out.emplace_back(member);
  return out;
}

// --- One function a message. `from` is whose request it is. ---

EventOr Convert(CloseSession, const RequestContext& from) {
  return coord::CloseSession{.caller = from.caller};
}

EventOr Convert(JoinJob request, const RequestContext& from) {
  auto timeout = SpanOf("timeout", request.timeout_us);
  if (!timeout.ok()) return timeout.status();
  if (request.incarnation == 0) return Invalid("incarnation 0: choose a random number");
  if (request.attempt < 0) return Invalid("an attempt below 0: they count from 1");
  if (request.attempt > kAttemptMax) {
    return Invalid(absl::StrFormat("attempt %d is over attempt_max (%d): correct LOCKSTEP_ATTEMPT",
                                   request.attempt, kAttemptMax));
  }
  coord::JoinJob event{.caller = from.caller,
                       .role = std::move(request.role),
                       .index = request.index,
                       .incarnation = Incarnation(request.incarnation),
                       .deadline = from.now + *timeout,
                       .host = std::move(request.host),
                       .pid = request.pid,
                       .peer = std::string(from.peer),
                       .labels = {},
                       .attempt = request.attempt};
  for (Label& label : request.labels) {
    event.labels.emplace_back(std::move(label.name), std::move(label.value));
  }
  return event;
}

EventOr Convert(LeaveJob, const RequestContext& from) {
  return coord::LeaveJob{.caller = from.caller, .member = {}};
}

EventOr Convert(ReportProgress request, const RequestContext& from) {
  return coord::ReportProgress{
      .caller = from.caller, .step = request.step, .phase = std::move(request.phase)};
}

EventOr Convert(PollForError, const RequestContext& from) {
  return coord::PollForError{.caller = from.caller, .member = {}};
}

EventOr Convert(ReportError request, const RequestContext& from) {
  if (request.code < 1 || request.code > kStatusCodeMax) {
    return Invalid(absl::StrFormat("code %d: an error has a status code from 1 to %d", request.code,
                                   kStatusCodeMax));
  }
  return coord::ReportError{.caller = from.caller,
                            .member = {},
                            .code = static_cast<absl::StatusCode>(request.code),
                            .message = std::move(request.message)};
}

EventOr Convert(WatchJob request, const RequestContext& from) {
  return coord::WatchJob{.caller = from.caller, .after = request.after};
}

EventOr Convert(Barrier request, const RequestContext& from) {
  auto timeout = SpanOf("timeout", request.timeout_us);
  if (!timeout.ok()) return timeout.status();
  coord::ArriveAtBarrier event{.caller = from.caller,
                               .member = {},
                               .id = std::move(request.id),
                               .counter = request.counter,
                               .timeout = *timeout,
                               .members = MembersOf(request.members),
                               .value = {}};
  if (request.value) event.value = std::move(request.value->data);
  return event;
}

EventOr Convert(CancelBarrier request, const RequestContext& from) {
  return coord::CancelBarrier{
      .caller = from.caller, .member = {}, .id = std::move(request.id), .counter = request.counter};
}

EventOr Convert(AgreeOnIndex request, const RequestContext& from) {
  auto timeout = SpanOf("timeout", request.timeout_us);
  if (!timeout.ok()) return timeout.status();
  if (request.stride < 0) {
    return Invalid(absl::StrFormat("stride %d: it cannot be negative", request.stride));
  }
  return coord::AgreeOnIndex{.caller = from.caller,
                             .member = {},
                             .name = std::move(request.name),
                             .counter = request.counter,
                             .index = request.index,
                             .stride = request.stride == 0 ? 1 : request.stride,
                             .timeout = *timeout,
                             .members = MembersOf(request.members)};
}

EventOr Convert(GetAliveMembers request, const RequestContext& from) {
  return coord::GetAliveMembers{
      .caller = from.caller, .member = {}, .members = MembersOf(request.members)};
}

EventOr Convert(GetKey request, const RequestContext& from) {
  if (request.wait) return coord::GetKey{.caller = from.caller, .key = std::move(request.key)};
  return coord::TryGetKey{.caller = from.caller, .key = std::move(request.key)};
}

EventOr Convert(GetKeys request, const RequestContext& from) {
  return coord::GetKeys{.caller = from.caller, .keys = std::move(request.keys)};
}

EventOr Convert(SetKey request, const RequestContext& from) {
  auto lifetime = LifetimeOf(request.ttl_us, request.with_member);
  if (!lifetime.ok()) return lifetime.status();
  return coord::SetKey{.caller = from.caller,
                       .key = std::move(request.key),
                       .value = std::move(request.value.data),
                       .overwrite = request.overwrite,
                       .lifetime = *lifetime};
}

EventOr Convert(CompareAndSetKey request, const RequestContext& from) {
  auto lifetime = LifetimeOf(request.ttl_us, request.with_member);
  if (!lifetime.ok()) return lifetime.status();
  const int said = (request.absent ? 1 : 0) + (request.expected_value ? 1 : 0) +
                   (request.expected_revision ? 1 : 0);
  if (said != 1) {
    return Invalid("say exactly one of absent, expected_value and expected_revision");
  }
  coord::CompareAndSetKey event;
  event.caller = from.caller;
  event.key = std::move(request.key);
  event.expected.absent = request.absent;
  event.expected.revision = request.expected_revision;
  if (request.expected_value) event.expected.value.emplace(std::move(request.expected_value->data));
  event.value = std::move(request.value.data);
  event.lifetime = *lifetime;
  return event;
}

EventOr Convert(IncrementKey request, const RequestContext& from) {
  return coord::IncrementKey{
      .caller = from.caller, .key = std::move(request.key), .increment = request.increment};
}

EventOr Convert(ListBarriers /*request*/, const RequestContext& from) {
  return coord::ListBarriers{.caller = from.caller};
}

EventOr Convert(MaxKey request, const RequestContext& from) {
  return coord::MaxKey{
      .caller = from.caller, .key = std::move(request.key), .number = request.value};
}

EventOr Convert(DeleteKey request, const RequestContext& from) {
  if (request.below && request.expected_revision) {
    return Invalid("expected_revision is for one key alone, not for all below it");
  }
  return coord::DeleteKey{.caller = from.caller,
                          .key = std::move(request.key),
                          .only_key = !request.below,
                          .revision = request.expected_revision};
}

EventOr Convert(ListKeys request, const RequestContext& from) {
  if (request.limit < 0) {
    return Invalid(absl::StrFormat("limit %d: it cannot be negative", request.limit));
  }
  return coord::ListKeys{.caller = from.caller,
                         .directory = std::move(request.directory),
                         .limit = static_cast<size_t>(request.limit),
                         .after = std::move(request.after)};
}

EventOr Convert(WatchKeys request, const RequestContext& from) {
  return coord::WatchKeys{
      .caller = from.caller, .key = std::move(request.key), .after = request.after};
}

EventOr Convert(NotifyPreemption request, const RequestContext& from) {
  using Act = coord::NotifyPreemption::Act;
  if (request.act < NoticeAct::kNotify || request.act > NoticeAct::kWithdraw) {
    return Invalid(
        "a preemption notice that says neither that somebody dies, nor when instead, "
        "nor that nobody does");
  }
  coord::NotifyPreemption event{.caller = from.caller,
                                .member = {},
                                .act = request.act == NoticeAct::kNotify   ? Act::kNotify
                                       : request.act == NoticeAct::kExtend ? Act::kExtend
                                                                           : Act::kWithdraw,
                                .source = std::move(request.source),
                                .event = std::move(request.event),
                                .subjects = MembersOf(request.subjects),
                                .host = std::move(request.host),
                                .left = {},
                                .text = std::move(request.text)};
  if (request.left_us) event.left = absl::Microseconds(*request.left_us);
  return event;
}

EventOr Convert(WatchPreemption request, const RequestContext& from) {
  return coord::WatchPreemption{
      .caller = from.caller, .member = {}, .after = request.after, .answers = request.answers};
}

EventOr Convert(AnswerHold request, const RequestContext& from) {
  return coord::AnswerHold{.caller = from.caller,
                           .member = {},
                           .preemption = request.preemption,
                           .first = request.first,
                           .stride = request.stride == 0 ? 1 : request.stride,
                           .last_step = request.last_step,
                           .step_time = absl::Microseconds(request.step_time_us),
                           .save_time = absl::Microseconds(request.save_time_us)};
}

EventOr Convert(ReportSave request, const RequestContext& from) {
  if (request.state < SyncState::kReached || request.state > SyncState::kFinished) {
    return Invalid(
        "a member says of itself that it reached the sync step, saved, failed to, or "
        "finished, and nothing else");
  }
  return coord::ReportSave{.caller = from.caller,
                           .member = {},
                           .preemption = request.preemption,
                           .state = ToCoord(request.state),
                           .step = request.step,
                           .text = std::move(request.text)};
}

// Of what a request may say wrongly, a name in bytes is what people come across.
absl::Status Unreadable(const absl::Status& status) {
  const absl::string_view text = status.message();
  if (!absl::EndsWith(text, " is not UTF-8")) return WithReason(status, "invalid_argument");
  const bool key = absl::StrContains(text, ".key") || absl::StrContains(text, ".directory");
  return WithReason(absl::InvalidArgumentError(absl::StrCat(
                        text, ": keys, names and texts are UTF-8; a value may have any bytes")),
                    key ? "key_invalid" : "invalid_argument");
}

template <class Request>
EventOr Read(std::string_view payload, const RequestContext& from) {
  auto request = Decode<Request>(payload);
  if (!request.ok()) return Unreadable(request.status());
  return Convert(*std::move(request), from);
}

// A session is opened by whoever holds the sessions of all jobs.
template <class Request>
constexpr bool kBecomesAnEvent = !std::is_same_v<Request, OpenSession>;

template <class... AnyRequest>
EventOr ReadOneOf(Requests<AnyRequest...>, RequestKind kind, std::string_view payload,
                  const RequestContext& from) {
  std::optional<EventOr> event;
  const auto read_as = [&]<class Request>(const KindOf<Request>&) {
    if constexpr (kBecomesAnEvent<Request>) {
      if (kind == KindOf<Request>::kKind) event = Read<Request>(payload, from);
    }
    return event.has_value();
  };
  if (!(read_as(KindOf<AnyRequest>()) || ...)) return UnknownRequest(kind);
  return *std::move(event);
}

}  // namespace

absl::StatusOr<coord::Event> ToEvent(RequestKind kind, std::string_view payload,
                                     const RequestContext& from) {
  return ReadOneOf(SessionRequests(), kind, payload, from);
}

absl::StatusOr<SessionId> ToSessionId(const Bytes& bytes) {
  if (bytes.data.size() != kSessionBytes) {
    return Invalid(absl::StrFormat("the id of a session has %d bytes, not %d", kSessionBytes,
                                   bytes.data.size()));
  }
  SessionId session;
  for (size_t i = 0; i < kSessionBytes; ++i) {
    uint64_t& half = i < kSessionBytes / 2 ? session.high : session.low;
    half = half << 8 | static_cast<uint8_t>(bytes.data[i]);
  }
  if (session.none()) return Invalid("the id of a session is random, and this one is all zero");
  return session;
}

Bytes ToBytes(SessionId session) {
  Bytes bytes;
  for (const uint64_t half : {session.high, session.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) {
      bytes.data.push_back(static_cast<char>(half >> shift));
    }
  }
  return bytes;
}

}  // namespace lockstep::wire::native

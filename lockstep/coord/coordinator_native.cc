// Sessions of native clients: what they may ask, as whom, and how they become members.
#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/coord/coordinator.h"

namespace lockstep::coord {

void Coordinator::HandleOther(Time now, const SessionBroke& fact, Effects& out) {
  SessionTable::Session* session = sessions_.Find(fact.session);
  if (session == nullptr || stopped_) return;
  sessions_.Broke(now, *session);
  if (IsLiveMember(*session)) attempt_->Handle(now, session->seat->member, fact, out);
}

void Coordinator::HandleOther(Time now, const coord::AnsweredThrough& fact, Effects&) {
  SessionTable::Session* session = sessions_.Find(fact.session);
  if (session == nullptr || stopped_) return;
  sessions_.AnsweredThrough(*session, fact.number);
  if (IsLiveMember(*session)) attempt_->Heard(now, session->seat->member);
}

bool Coordinator::IsLiveMember(const SessionTable::Session& session) const {
  if (!session.seat || session.seat->service != attempt_->service()) return false;
  const Membership::Member& member = attempt_->membership().Get(session.seat->member);
  return member.session == session.id && member.state == MemberState::kConnected;
}

ErrorPtr Coordinator::CheckSeat(const SessionTable::Session& session, bool tools) const {
  if (!session.seat) {
    if (tools) return nullptr;
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kNotAMember,
                     absl::StrCat("this session has not joined job '", job_->options.job,
                                  "': join it first; without that it may only read and write keys "
                                  "and watch"));
  }
  const Seat& seat = *session.seat;
  if (seat.service != attempt_->service()) return WrongService(seat.service, true);
  if (!job_->lives.IsFormer(seat.member, seat.incarnation)) return nullptr;
  return MakeError(
      absl::StatusCode::kAborted, Reason::kMemberRestarted,
      absl::StrCat("this is a request of a former life of ", job_->Describe(seat.member),
                   ", which has restarted since; end "
                   "this process"));
}

Answer Coordinator::AnswerAgain(const record::AnswerKept& kept, const std::string* value) {
  const int64_t revision = kept.revision.value_or(0);
  if (kept.swapped) {
    auto written = std::make_shared<const std::string>(value != nullptr ? *value : "");
    return KeySwapped{.swapped = true, .entry = KeyValue{kept.key, std::move(written), revision}};
  }
  if (kept.result) {
    return KeyRead{
        {kept.key, std::make_shared<const std::string>(absl::StrCat(*kept.result)), revision}};
  }
  if (kept.deleted) return KeysDeleted{.deleted = *kept.deleted, .revision = revision};
  if (kept.revision) return KeyWritten{.revision = revision};
  return std::monostate();
}

void Coordinator::KeepAnswer(SessionTable::Session& session, const Caller& caller, size_t records,
                             size_t replies, Effects& out) {
  if (caller.number == 0 || out.records.size() == records) return;
  const auto reply =
      std::find_if(out.replies.begin() + static_cast<ptrdiff_t>(replies), out.replies.end(),
                   [&caller](const Reply& each) { return each.call == caller.call; });
  if (reply == out.replies.end() || reply->error) return;
  record::AnswerKept kept{.session = caller.session, .number = caller.number};
  if (const auto* written = std::get_if<KeyWritten>(&reply->answer)) {
    kept.revision = written->revision;
  } else if (const auto* swapped = std::get_if<KeySwapped>(&reply->answer)) {
    if (!swapped->swapped || !swapped->entry) return;  // nothing happened that could happen twice
    kept.swapped = true;
    kept.key = swapped->entry->key;
    kept.revision = swapped->entry->revision;
  } else if (const auto* deleted = std::get_if<KeysDeleted>(&reply->answer)) {
    kept.deleted = deleted->deleted;
    kept.revision = deleted->revision;
  } else if (const auto* read = std::get_if<KeyRead>(&reply->answer)) {
    int64_t number = 0;
    LOCKSTEP_CHECK(absl::SimpleAtoi(*read->entry.value, &number));
    kept.result = number;
    kept.key = read->entry.key;
    kept.revision = read->entry.revision;
  }
  sessions_.Keep(session, std::move(kept), out);
}

ErrorPtr Coordinator::CheckJoin(const JoinJob& request, const RoleRecord** role) const {
  if (ErrorPtr unknown = job_->roles().Find(request.role, role)) return unknown;
  const CoordinatorOptions& options = job_->options;
  auto wrong = [](Reason reason, std::string text) {
    return MakeError(absl::StatusCode::kInvalidArgument, reason, std::move(text));
  };
  auto over = [](absl::string_view what, size_t is, absl::string_view limit, size_t max) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
        absl::StrCat(what, " (", is, ") is over ", limit, " (", max, "); nothing was changed"));
  };
  if (request.incarnation == Incarnation()) {
    return wrong(Reason::kInvalidArgument,
                 "an incarnation of 0: choose a random number, new in each life of the process");
  }
  if (request.index && (*request.index < 0 || *request.index >= (*role)->size)) {
    return wrong(Reason::kUnknownMember,
                 absl::StrCat((*role)->name, "/", *request.index, " is not in job '", options.job,
                              "', which has the members ", job_->roles().NameMembers(),
                              "; check the index and the size of the job"));
  }
  if (request.labels.size() > options.labels_max) {
    return over("the number of labels", request.labels.size(), "labels_max", options.labels_max);
  }
  const size_t most = options.label_bytes_max;
  for (const auto& [name, value] : request.labels) {
    const size_t bytes = std::max(name.size(), value.size());
    if (bytes > most) return over("the bytes of a label", bytes, "label_bytes_max", most);
  }
  const size_t bytes = std::max(request.host.size(), request.peer.size());
  if (bytes > most) return over("the bytes of a host", bytes, "label_bytes_max", most);
  return nullptr;
}

ErrorPtr Coordinator::CheckAttempt(const JoinJob& request, bool known) const {
  if (!IsAttemptWithin(request.attempt, job_->attempt)) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
        absl::StrCat("this process was started for attempt ", request.attempt, " of job '",
                     job_->options.job, "' (LOCKSTEP_ATTEMPT), which is at attempt ", job_->attempt,
                     ": more than ", kAttemptsAheadMax,
                     " ahead (attempts_ahead_max); correct the number"));
  }
  if (request.attempt == 0 || request.attempt > job_->attempt) return nullptr;
  const bool over = attempt_->ended() || (attempt_->failed() && !known);
  if (request.attempt == job_->attempt && !over) return nullptr;
  return MakeError(
      absl::StatusCode::kFailedPrecondition, Reason::kWrongAttempt,
      absl::StrCat("this process was started for attempt ", request.attempt, " of job '",
                   job_->options.job, "' (LOCKSTEP_ATTEMPT), which is over",
                   request.attempt == job_->attempt
                       ? ""
                       : absl::StrCat("; the job is at attempt ", job_->attempt),
                   "; others come in its place: end it"));
}

ErrorPtr Coordinator::CheckOnlyOnce(const SessionTable::Session& session, const JoinJob& request,
                                    std::optional<MemberIndex> member) const {
  if (!session.asks || attempt_->failed()) return nullptr;
  const MemberIndex asked = *session.asks;
  const Membership::Member& is = attempt_->membership().Get(asked);
  const bool lives = is.state == MemberState::kConnected || attempt_->registration().Waits(asked);
  if (!lives || is.session != session.id) return nullptr;
  if (is.incarnation == request.incarnation && (!member || *member == asked)) return nullptr;
  return MakeError(absl::StatusCode::kAlreadyExists, Reason::kMemberExists,
                   absl::StrCat("this session has joined already, as ", job_->Describe(asked),
                                "; leave first, or join in a session of its own"));
}

ErrorPtr Coordinator::CheckHolder(Time now, MemberIndex index, Incarnation incarnation) const {
  if (attempt_->failed()) return nullptr;
  const Membership::Member& holder = attempt_->membership().Get(index);
  const FailureDetector::Health& health = attempt_->membership().detector().Of(index);
  const bool lives = (holder.state == MemberState::kConnected && !health.broke()) ||
                     attempt_->registration().Waits(index);
  if (!lives || holder.incarnation == incarnation) return nullptr;
  const PlaceRecord& place = job_->places[index.value()];
  return MakeError(Error{
      .code = absl::StatusCode::kAlreadyExists,
      .reason = Reason::kMemberExists,
      .message = absl::StrCat(
          job_->Describe(index), " of job '", job_->options.job, "' is another process, which ",
          attempt_->registration().Waits(index) ? "has waited for the others" : "has been in",
          " for ", FormatSpan(now - holder.since), ", calls from ", holder.peer,
          place.host.empty() ? "" : absl::StrCat(" on host ", place.host), " and was last heard ",
          FormatSpan(now - health.signs.last_heard()),
          " ago; end it first, or join with another index"),
      .origin = index});
}

void Coordinator::Join(Time now, SessionTable::Session& session, const JoinJob& request,
                       Effects& out) {
  const CallId call = request.caller.call;
  const RoleRecord* role = nullptr;
  if (ErrorPtr refusal = CheckJoin(request, &role)) return out.Fail(call, refusal);

  std::optional<MemberIndex> member;
  if (request.index) {
    member = MemberIndex(role->first + *request.index);
  } else if (auto known = attempt_->membership().Find(request.incarnation);
             known && &job_->roles().Of(*known) == role) {
    member = known;  // it asks again
  }
  if (ErrorPtr refusal = CheckOnlyOnce(session, request, member)) return out.Fail(call, refusal);
  const bool former = member && job_->lives.IsFormer(*member, request.incarnation);
  const bool known = member && attempt_->membership().lives().Knew(*member, request.incarnation);
  if (ErrorPtr refusal = CheckAttempt(request, known)) return out.Fail(call, refusal);
  if (!known && !former && job_->no_room.for_small) {
    return out.Fail(call, job_->no_room.for_small);
  }
  if (!former) {
    const bool over = attempt_->failed() || attempt_->ended();
    if (member && !over) {
      if (ErrorPtr refusal = CheckHolder(now, *member, request.incarnation)) {
        return out.Fail(call, refusal);
      }
    }
    if (!known && !over) attempt_->GiveUpBroken(now, member, out);
    const bool opens = attempt_->ended() || (attempt_->failed() && !known);
    if (ErrorPtr refusal = opens ? CheckNextAttempt() : nullptr) return out.Fail(call, refusal);
    const int64_t next = std::max(job_->attempt + 1, request.attempt);
    if (opens || (request.attempt >= next && attempt_->empty())) OpenNextAttempt(now, next, out);
  }
  if (request.attempt > job_->attempt) {
    return out.Fail(
        call, MakeError(absl::StatusCode::kFailedPrecondition, Reason::kWrongAttempt,
                        absl::StrCat("this process was started for attempt ", request.attempt,
                                     " of job '", job_->options.job,
                                     "' (LOCKSTEP_ATTEMPT), but attempt ", job_->attempt,
                                     " is still on, with ", attempt_->membership().connected(),
                                     " members; end those first, or correct the number")));
  }
  if (!member) member = attempt_->registration().FreeMember(*role);
  if (!member) {
    return out.Fail(
        call,
        MakeError(absl::StatusCode::kResourceExhausted, Reason::kJobFull,
                  absl::StrCat("job '", job_->options.job, "' has ", role->size,
                               role->size == 1 ? " member" : " members", " of role '", role->name,
                               role->size == 1 ? "', and it" : "', and each of them",
                               " is there already; start fewer processes, "
                               "end one, or make the job larger")));
  }
  session.asks = *member;
  attempt_->Admit(now,
                  {.call = call,
                   .member = *member,
                   .incarnation = request.incarnation,
                   .deadline = request.deadline,
                   .peer = request.peer.empty() ? session.peer : request.peer,
                   .role = request.role,
                   .host = request.host,
                   .pid = request.pid,
                   .labels = request.labels,
                   .session = session.id},
                  out);
}

void Coordinator::WatchTheJob(Time now, const WatchJob& request, Effects& out) {
  const size_t waits = attempt_->waits() + job_watch_.waits();
  if (waits >= job_->options.waits_max) {
    return out.Fail(request.caller.call,
                    MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                              absl::StrCat(waits, " calls of job '", job_->options.job,
                                           "' wait, which is the limit waits_max; nothing was "
                                           "changed")));
  }
  if (job_->no_room.for_small) return out.Fail(request.caller.call, job_->no_room.for_small);
  job_watch_.Watch(now, request.caller.call, request.after, *attempt_, out);
}

void Coordinator::EndSession(Time now, const CloseSession& request, Effects& out) {
  const SessionId id = request.caller.session;
  const std::optional<MemberIndex> asked = sessions_.Find(id)->asks;
  if (asked && attempt_->membership().Get(*asked).session == id) {
    attempt_->Handle(now, *asked, request, out);
  }
  sessions_.Close(id, out);
  out.Succeed(request.caller.call);
}

}  // namespace lockstep::coord

#include "lockstep/coord/attempt.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"

namespace lockstep::coord {
namespace {

// A member may report a text of any length; what is kept of it, quoted by other errors and sent to
// all must not grow with that. Cut between characters.
std::string Cut(const std::string& text) {
  constexpr size_t kMax = kErrorTextBytesMax / 2;
  if (text.size() <= kMax) return text;
  size_t end = kMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), "... [truncated]");
}

}  // namespace

Attempt::Attempt(JobRecord& job, ServiceIncarnation service, int64_t first_revision)
    : job_(job),
      service_(service),
      membership_(job),
      registration_(job, membership_),
      barriers_(job, membership_),
      agreements_(job, membership_),
      keys_(job.options, first_revision),
      alive_(membership_),
      watch_(membership_, job.options.watch_interval),
      preemption_(job, membership_),
      polls_(job, membership_),
      shutdown_(job, membership_, service),
      views_(job, membership_, registration_, polls_),
      health_(job, membership_, polls_, views_) {}

bool Attempt::ended() const { return membership_.ever_connected() && empty(); }

bool Attempt::empty() const { return membership_.connected() == 0 && registration_.idle(); }

// What every request goes through.

bool Attempt::CheckMember(MemberIndex member, CallId call, Effects& out) const {
  if (job_.IsMember(member)) return true;
  out.Fail(call, MakeError(absl::StatusCode::kInvalidArgument, Reason::kUnknownMember,
                           absl::StrCat(job_.Name(member), " is not in the cluster: job '",
                                        job_.options.job, "' has the members ", job_.NameAll(),
                                        "; check the process id and the size of the job")));
  return false;
}

bool Attempt::CheckCaller(MemberIndex member, const Caller& caller, Effects& out) const {
  if (!CheckMember(member, caller.call, out)) return false;
  if (!job_.IsFormerLife(member, caller.incarnation)) return true;
  out.Fail(caller.call,
           MakeError(absl::StatusCode::kAborted, Reason::kMemberRestarted,
                     absl::StrCat("this is a request of a former life of ",
                                  job_.NameWithLife(member), ", which has restarted since")));
  return false;
}

bool Attempt::MayPark(CallId call, Effects& out) const {
  if (job_.no_room.for_small) {
    out.Fail(call, job_.no_room.for_small);
    return false;
  }
  if (waits() < job_.options.waits_max) return true;
  out.Fail(call, MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                           absl::StrCat(waits(), " calls of job '", job_.options.job,
                                        "' wait, which is the limit waits_max; nothing was "
                                        "changed")));
  return false;
}

void Attempt::NoteLife(Time now, const Caller& caller) {
  if (std::optional<MemberIndex> member = membership_.Find(caller.incarnation)) {
    membership_.Heard(now, *member);
  }
}

// Coming in.

void Attempt::Admit(Time now, const Admission& request, Effects& out) {
  if (!CheckMember(request.member, request.call, out)) return;
  if (job_.IsFormerLife(request.member, request.incarnation)) {
    return out.Fail(request.call,
                    MakeError(absl::StatusCode::kAlreadyExists, Reason::kSuperseded,
                              absl::StrCat("Aborted connect attempt of ", job_.Name(request.member),
                                           ": there is a request from a newer incarnation")));
  }
  const Membership::Member& member = membership_.Get(request.member);
  if (failed()) {
    // Only lives of this attempt get here; others open the next one.
    const ErrorPtr& because = member.error ? member.error : root_cause_;
    return out.Fail(request.call,
                    MakeError(absl::StatusCode::kAborted, Reason::kMemberFailed,
                              absl::StrCat(job_.NameWithLife(request.member),
                                           " tried to connect while it is already in error: ",
                                           because->message, "; start the process anew")));
  }
  // A lost member may turn out to live; one that failed otherwise comes back in a new life only.
  const bool recoverable = job_.Recoverable(request.member);
  const bool may_recover = recoverable && member.error &&
                           (member.error->code == absl::StatusCode::kUnavailable ||
                            member.incarnation != request.incarnation);
  if (member.state == MemberState::kError && !may_recover) {
    return out.Fail(request.call,
                    MakeError(absl::StatusCode::kAborted, Reason::kMemberFailed,
                              absl::StrCat(job_.NameWithLife(request.member),
                                           " tried to connect while it is already in error: ",
                                           member.error->message)));
  }
  job_.SettleRole(request.role);
  if (member.state == MemberState::kConnected && member.incarnation == request.incarnation) {
    // A retry whose first answer was lost; a native one may come in another session.
    if (member.session != request.session) membership_.BeginLife(now, request);
    if (request.native()) membership_.ConnectionBack(now, request.member);
    membership_.Heard(now, request.member);
    return out.Succeed(request.call, LetIn(request.member));
  }
  if (member.state == MemberState::kConnected && !recoverable) {
    return Restarted(now, request, out);
  }
  if (!registration_.complete()) {
    if (!registration_.Ask(now, request, out)) return;
    for (const Gathering::Arrival& arrival : registration_.TakeAll(out)) {
      Connect(now, arrival.member);
      polls_.AwaitFirst(arrival.member, arrival.call);
      TellJoined(arrival.member, out);
      out.Succeed(arrival.call, LetIn(arrival.member));
    }
    out.Tell(Severity::kInfo,
             absl::StrCat("job '", job_.options.job, "': attempt ", job_.attempt, " runs: all ",
                          job_.options.size, " members are in, ",
                          FormatSpan(now - *registration_.began()), " after the first"),
             {NoticeKind::kAttemptRuns, {}});
    return;
  }
  ComeBack(now, request, out);
}

void Attempt::ComeBack(Time now, const Admission& request, Effects& out) {
  membership_.BeginLife(now, request);
  // What the former life waits for is not this one's; above all, the end of its poll must not be
  // taken for a broken connection of this life.
  barriers_.MemberRestarted(request.member, out);
  const ErrorPtr again =
      MakeError(absl::StatusCode::kCancelled, Reason::kSuperseded,
                absl::StrCat(job_.NameWithLife(request.member), " registered again"));
  polls_.Cancel(now, request.member, again, out);
  Connect(now, request.member);
  polls_.AwaitFirst(request.member, request.call);
  alive_.MemberRestarted(request.member, again, out);
  agreements_.MemberRestarted(request.member, again, out);
  keys_.MemberGone(request.member, out);
  TellJoined(request.member, out);
  out.Succeed(request.call, LetIn(request.member));
}

void Attempt::TellJoined(MemberIndex member, Effects& out) const {
  out.Tell(Severity::kInfo,
           absl::StrCat("job '", job_.options.job, "': ", job_.Describe(member), " is in"),
           {NoticeKind::kMemberJoined, member});
}

void Attempt::Connect(Time now, MemberIndex member) {
  // A connected member of a recoverable job may come in again: it is connected anew.
  if (membership_.Get(member).state == MemberState::kConnected) {
    membership_.Disconnect(now, member);
  }
  membership_.Connect(now, member);
  job_.SomebodyJoined();
}

void Attempt::Restarted(Time now, const Admission& request, Effects& out) {
  const ErrorPtr error = MakeError(
      Error{.code = absl::StatusCode::kAborted,
            .reason = Reason::kMemberRestarted,
            .message = absl::StrCat(
                job_.Describe(request.member),
                " unexpectedly tried to connect with a different incarnation. It has likely "
                "restarted; look for the first failure in the log of its former life, and start "
                "the other members anew"),
            .origin = request.member});
  Fail(now, {{request.member, now, error}}, out);
  out.Fail(request.call, error);
}

// Staying in.

ErrorPtr Attempt::CheckIn(Time now, MemberIndex index) const {
  const Membership::Member& member = membership_.Get(index);
  if (member.state == MemberState::kError) {
    return MakeError(
        absl::StatusCode::kAborted, Reason::kMemberFailed,
        absl::StrCat(job_.NameWithLife(index), " is already in error: ", member.error->message));
  }
  if (member.state == MemberState::kDisconnected &&
      (!member.grace_until || now > *member.grace_until)) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kNotRegistered,
                     absl::StrCat(job_.Name(index),
                                  " must be registered before sending heartbeat messages. "
                                  "The service might have restarted: register again"));
  }
  return nullptr;
}

void Attempt::Handle(Time now, const Heartbeat& request, Effects& out) {
  const CallId call = request.caller.call;
  if (!CheckMember(request.member, call, out)) return;
  if (ErrorPtr refusal = CheckIn(now, request.member)) return out.Fail(call, refusal);
  const Membership::Member& member = membership_.Get(request.member);
  if (member.incarnation != request.incarnation) {
    if (job_.Recoverable(request.member)) return out.Succeed(call, HeartbeatTaken{service_});
    const ErrorPtr error = MakeError(
        Error{.code = absl::StatusCode::kAborted,
              .reason = Reason::kMemberRestarted,
              .message = absl::StrCat(
                  "Heartbeat: Incarnation ID mismatch: expecting ", member.incarnation.value(),
                  " but got ", request.incarnation.value(), " from ", job_.Describe(request.member),
                  ". The task has restarted and likely crashed earlier"),
              .origin = request.member});
    const bool stranger = !job_.IsFormerLife(request.member, request.incarnation);
    if (stranger && member.state == MemberState::kConnected)
      Fail(now, {{request.member, now, error}}, out);
    return out.Fail(call, error);
  }
  membership_.HeardHeartbeat(now, request.member);
  out.Succeed(call, HeartbeatTaken{service_});
}

void Attempt::Handle(Time now, const PollForError& request, Effects& out) {
  const CallId call = request.caller.call;
  if (!CheckCaller(request.member, request.caller, out)) return;
  const Membership::Member& member = membership_.Get(request.member);
  auto refuse = [&](Reason reason, absl::string_view text) {
    out.Fail(call, MakeError(absl::StatusCode::kFailedPrecondition, reason,
                             absl::StrCat(job_.NameWithLife(request.member), " ", text)));
  };
  if (member.state == MemberState::kDisconnected) {
    if (!member.grace_until) {
      return refuse(Reason::kNotRegistered, "has not been registered; it cannot poll for errors");
    }
    if (now > *member.grace_until) {
      return refuse(Reason::kMemberLeft, "has disconnected; it cannot poll for errors");
    }
  }
  if (member.state == MemberState::kError) {
    return refuse(Reason::kMemberFailed,
                  absl::StrCat("is already in error: ", member.error->message));
  }
  if (!failed()) NoteLife(now, request.caller);
  polls_.Poll(now, request.member, call, root_cause_, out);
}

void Attempt::Handle(Time now, const ReportError& request, Effects& out) {
  const CallId call = request.caller.call;
  if (!CheckCaller(request.member, request.caller, out)) return;
  if (membership_.Get(request.member).state != MemberState::kConnected) {
    return out.Fail(call, MakeError(absl::StatusCode::kFailedPrecondition, Reason::kNotRegistered,
                                    absl::StrCat(job_.NameWithLife(request.member),
                                                 " is not connected; it cannot report an error")));
  }
  // A report of "no error" is an error all the same: the member says that it cannot go on.
  const absl::StatusCode code =
      request.code == absl::StatusCode::kOk ? absl::StatusCode::kUnknown : request.code;
  Fail(now,
       {{request.member, now,
         MakeError(Error{.code = code,
                         .reason = Reason::kReportedError,
                         .message = absl::StrCat(job_.Describe(request.member),
                                                 " reported an error: ", Cut(request.message)),
                         .origin = request.member,
                         .reported = true})}},
       out);
  out.Succeed(call);
}

// Going out.

void Attempt::Handle(Time now, const LeaveJob& request, Effects& out) {
  const CallId call = request.caller.call;
  if (!CheckCaller(request.member, request.caller, out)) return;
  if (const Membership::Member& member = membership_.Get(request.member);
      member.state == MemberState::kDisconnected) {
    // A native client that lost the answer asks again, and hears the same.
    if (request.caller.native() && member.grace_until) {
      return shutdown_.verdict() ? out.Fail(call, shutdown_.verdict()) : out.Succeed(call);
    }
    return out.Fail(call, MakeError(absl::StatusCode::kFailedPrecondition, Reason::kNotRegistered,
                                    absl::StrCat(job_.NameWithLife(request.member),
                                                 " is not connected; it cannot shut down")));
  }
  if (job_.options.shutdown_timeout <= absl::ZeroDuration() || job_.Recoverable(request.member)) {
    Disconnect(now, request.member, out);
    return out.Succeed(call);
  }
  if (!shutdown_.ended() && !shutdown_.open()) {
    if (const ErrorPtr failed = shutdown_.Open(now)) FailShutdown(now, failed, out);
  }
  if (shutdown_.open() && !shutdown_.Includes(request.member)) {
    // It was recoverable when the others began to leave: nobody waits for it.
    Disconnect(now, request.member, out);
    return out.Succeed(call);
  }
  if (shutdown_.ended()) {
    Disconnect(now, request.member, out);
    return shutdown_.verdict() ? out.Fail(call, shutdown_.verdict()) : out.Succeed(call);
  }
  NoteLife(now, request.caller);
  if (request.caller.native()) preemption_.MemberLeaves(now, request.member, out);
  if (shutdown_.Arrive(request.member, call, out)) PassShutdown(now, out);
}

void Attempt::Handle(Time now, const ResetMember& request, Effects& out) {
  const CallId call = request.caller.call;
  if (!CheckCaller(request.member, request.caller, out)) return;
  if (membership_.Get(request.member).state == MemberState::kDisconnected) {
    return out.Fail(call, MakeError(absl::StatusCode::kFailedPrecondition, Reason::kNotRegistered,
                                    absl::StrCat(job_.NameWithLife(request.member),
                                                 " is not connected; there is nothing to reset")));
  }
  Disconnect(now, request.member, out);
  out.Succeed(call);
}

void Attempt::Disconnect(Time now, MemberIndex member, Effects& out) {
  const ErrorPtr left = MakeError(
      Error{.code = absl::StatusCode::kCancelled,
            .reason = Reason::kMemberLeft,
            .message = absl::StrCat(job_.NameWithLife(member), ": the task has disconnected"),
            .origin = member});
  membership_.Disconnect(now, member);
  out.Tell(Severity::kInfo,
           absl::StrCat("job '", job_.options.job, "': ", job_.Describe(member), " has left"),
           {NoticeKind::kMemberLeft, member});
  polls_.Cancel(now, member, left, out);
  barriers_.MemberGone(member, left, out);
  ForgetTraces(now, member, left, out);
  alive_.MemberChanged(member, out);
  if (shutdown_.Includes(member)) FailShutdown(now, left, out);
  if (ended()) {
    out.Tell(Severity::kInfo,
             absl::StrCat("job '", job_.options.job, "': attempt ", job_.attempt,
                          " ended: the last member, ", job_.NameWithLife(member), ", has left"),
             {NoticeKind::kAttemptEnded, {}});
  }
}

void Attempt::PassShutdown(Time now, Effects& out) {
  for (const Gathering::Arrival& arrival : shutdown_.Pass(out)) {
    Disconnect(now, arrival.member, out);
    out.Succeed(arrival.call);
  }
}

void Attempt::FailShutdown(Time now, const ErrorPtr& inner, Effects& out) {
  shutdown_.Fail(inner, out);
  const ErrorPtr verdict = shutdown_.verdict();
  if (!failed()) {
    Keep(now, *verdict, false, out);
    out.Tell(Severity::kError, absl::StrCat("job '", job_.options.job, "': ", verdict->message),
             {NoticeKind::kBarrierFailed, {}});
  }
  Propagate(now, verdict, out);
  SetAllToError(now, verdict, out);
}

// The rest of the requests.

void Attempt::Handle(Time now, const WatchMembers& request, Effects& out) {
  NoteLife(now, request.caller);
  if (MayPark(request.caller.call, out)) {
    watch_.Watch(request.caller.call, request.version, out);
  }
}

void Attempt::Handle(Time now, const ArriveAtBarrier& request, Effects& out) {
  if (!CheckCaller(request.member, request.caller, out)) return;
  NoteLife(now, request.caller);
  if (MayPark(request.caller.call, out)) barriers_.Arrive(now, request, out);
}

void Attempt::Handle(Time now, const CancelBarrier& request, Effects& out) {
  if (!CheckCaller(request.member, request.caller, out)) return;
  NoteLife(now, request.caller);
  barriers_.Cancel(request, out);
}

void Attempt::Handle(Time now, GetAliveMembers request, Effects& out) {
  const CallId call = request.caller.call;
  if (!CheckCaller(request.member, request.caller, out)) return;
  NoteLife(now, request.caller);
  // A stock client that names nobody is not in its list, as below.
  if (request.members.empty() && request.caller.native()) {
    request.members = *AllMembers(job_.options.size);
  }
  if (std::find(request.members.begin(), request.members.end(), request.member) ==
      request.members.end()) {
    return out.Fail(
        call, MakeError(Error{.code = absl::StatusCode::kInvalidArgument,
                              .reason = Reason::kCallerNotListed,
                              .message = absl::StrCat(
                                  job_.Name(request.member), " asks who is alive in a list of ",
                                  request.members.size(), " tasks that it is not in"),
                              .from_service = false}));
  }
  if (MayPark(call, out)) alive_.Ask(request, out);
}

void Attempt::Handle(Time now, const CallLeft& fact, Effects&) {
  if (!polls_.Forget(now, fact.call) && !shutdown_.Forget(fact.call) && !keys_.Forget(fact.call) &&
      !barriers_.Forget(fact.call) && !agreements_.Forget(fact.call) &&
      !registration_.Forget(now, fact.call) && !watch_.Forget(fact.call) &&
      !preemption_.Forget(fact.call)) {
    alive_.Forget(fact.call);
  }
}

}  // namespace lockstep::coord

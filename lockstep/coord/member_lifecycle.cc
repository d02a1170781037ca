#include "lockstep/coord/member_lifecycle.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/coord/member_views.h"

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

ErrorPtr RestartedError(const JobRecord& job, MemberIndex member) {
  return MakeError(
      Error{.code = absl::StatusCode::kAborted,
            .reason = Reason::kMemberRestarted,
            .message = absl::StrCat(
                job.Describe(member),
                " unexpectedly tried to connect with a different incarnation. It has likely "
                "restarted; look for the first failure in the log of its former life, and start "
                "the other members anew"),
            .origin = member});
}

// Whether the member's newest process belongs to another run than the member does: the job was
// started again while its members are in, or after they were lost, and no process of that run has
// joined.
bool IsOfAnotherRun(const JobRecord& job, const Membership::Member& member, MemberIndex index) {
  return job.processes[index.value()].newer &&
         (member.state == MemberState::kConnected || member.state == MemberState::kError);
}

// By its own PID and host: the member itself may be another process.
std::string DescribeProcess(const JobRecord& job, MemberIndex member) {
  const ProcessRecord& process = job.processes[member.value()];
  return absl::StrCat(job.Name(member), " (pid ", process.pid, " on ", process.host,
                      "), which has not joined");
}

}  // namespace

MemberLifecycle::MemberLifecycle(JobRecord& job, ServiceIncarnation service,
                                 const Machines& machines)
    : job_(job),
      service_(service),
      gate_(machines.gate),
      membership_(machines.membership),
      registration_(machines.registration),
      polls_(machines.polls),
      shutdown_(machines.shutdown),
      primitives_(machines.primitives) {}

bool MemberLifecycle::empty() const { return membership_.connected() == 0 && registration_.idle(); }

// Coming in.

ErrorPtr MemberLifecycle::CheckAdmission(const Admission& request) const {
  // Before the state of the member, which is that of its newer life.
  if (job_.lives.IsFormer(request.member, request.incarnation)) {
    return MakeError(absl::StatusCode::kAlreadyExists, Reason::kSuperseded,
                     absl::StrCat("Aborted connect attempt of ", job_.Name(request.member),
                                  ": there is a request from a newer incarnation"));
  }
  const Membership::Member& member = membership_.Get(request.member);
  if (failed()) {
    // Only lives of this attempt get here; others open the next one.
    const ErrorPtr& because = member.error ? member.error : root_cause_;
    return MakeError(absl::StatusCode::kAborted, Reason::kMemberFailed,
                     absl::StrCat(job_.NameWithLife(request.member),
                                  " tried to connect while it is already in error: ",
                                  because->message, "; start the process anew"));
  }
  // Absent, registering and connected members may come; `Admit` tells a retry from a restart.
  if (member.state != MemberState::kError) return nullptr;
  // A lost member may turn out to live; one that failed otherwise comes back in a new life only.
  const bool may_recover =
      job_.Recoverable(request.member) && (member.error->code == absl::StatusCode::kUnavailable ||
                                           member.incarnation != request.incarnation);
  if (may_recover) return nullptr;
  return MakeError(
      absl::StatusCode::kAborted, Reason::kMemberFailed,
      absl::StrCat(job_.NameWithLife(request.member),
                   " tried to connect while it is already in error: ", member.error->message));
}

void MemberLifecycle::Admit(Time now, const Admission& request, Effects& out) {
  if (!gate_.CheckMember(request.member, request.call, out)) return;
  if (ErrorPtr refusal = CheckAdmission(request)) return out.Fail(request.call, refusal);
  // Only now: a refused process must not name the role.
  job_.SettleRole(request.role);
  const Membership::Member& member = membership_.Get(request.member);
  const bool connected = member.state == MemberState::kConnected;
  if (connected && member.incarnation == request.incarnation) {
    // A retry whose first answer was lost; a native one may come in another session.
    if (member.session != request.session) membership_.BeginLife(now, request);
    if (request.native()) membership_.detector().ConnectionBack(now, request.member);
    if (!request.agent.none()) polls_.AwaitFirstAgain(now, request.member, request.call);
    membership_.detector().Heard(now, request.member);
    return out.Succeed(request.call, AnswerOf(request.member));
  }
  // Two lives of one member: the former one has died unseen, and its state with it.
  if (connected && !job_.Recoverable(request.member)) {
    const ErrorPtr error = RestartedError(job_, request.member);
    Fail(now, {{request.member, now, error}}, out);
    return out.Fail(request.call, error);
  }
  // Once all were in, a member comes in alone.
  if (registration_.complete()) return ComeBack(now, request, out);
  if (!registration_.Ask(now, request, out)) return;
  // All at once: no member is answered before all of them have come.
  for (const Gathering::Arrival& arrival : registration_.TakeAll(out)) {
    membership_.Connect(now, arrival.member);
    LetIn(arrival.member, arrival.call, out);
  }
  LOCKSTEP_DCHECK(registration_.complete() && registration_.began().has_value());
  out.Tell(Severity::kInfo,
           absl::StrCat("job '", job_.options.job, "': attempt ", job_.attempt, " runs: all ",
                        job_.options.size, " members are in, ",
                        FormatSpan(now - *registration_.began()), " after the first"),
           {LogKind::kAttemptRuns, {}});
}

void MemberLifecycle::ComeBack(Time now, const Admission& request, Effects& out) {
  LOCKSTEP_DCHECK(registration_.complete());  // else all wait for each other
  const MemberIndex member = request.member;
  // First: names and lives below are those of the new life.
  membership_.BeginLife(now, request);
  // What the former life waits for is not this one's; above all, the end of its poll must not be
  // taken for a broken connection of this life.
  primitives_.EndFormerLife(member, out);
  const ErrorPtr again = MakeError(absl::StatusCode::kCancelled, Reason::kSuperseded,
                                   absl::StrCat(job_.NameWithLife(member), " registered again"));
  polls_.Cancel(now, member, again, out);
  // A member of a recoverable job may still be connected: it is connected anew.
  if (membership_.Get(member).state == MemberState::kConnected) {
    membership_.Disconnect(now, member);
  }
  // Before the sets of alive members, which await connected ones only.
  membership_.Connect(now, member);
  primitives_.MemberIsBack(member, again, out);
  LetIn(member, request.call, out);
}

void MemberLifecycle::LetIn(MemberIndex member, CallId call, Effects& out) {
  LOCKSTEP_DCHECK(membership_.Get(member).state == MemberState::kConnected);
  // The processes that launchers have reported are this run's from here on.
  job_.processes.SomebodyJoined();
  // Before the answer: should its call break, the caller never got it.
  polls_.AwaitFirst(member, call);
  out.Tell(Severity::kInfo,
           absl::StrCat("job '", job_.options.job, "': ", job_.Describe(member), " is in"),
           {LogKind::kMemberJoined, member});
  out.Succeed(call, AnswerOf(member));
}

Answer MemberLifecycle::AnswerOf(MemberIndex member) const {
  if (!membership_.Get(member).native()) return Registered{service_};
  const RoleRecord& role = job_.roles().Of(member);
  LOCKSTEP_DCHECK(member.value() >= role.first && member.value() - role.first < role.size);
  return Joined{.member = member,
                .role = role.name,
                .index = member.value() - role.first,
                .name = job_.NameWithLife(member),
                .service = service_,
                .attempt = job_.attempt,
                .size = job_.options.size,
                .recoverable = job_.Recoverable(member)};
}

// Staying in.

void MemberLifecycle::Handle(Time now, const Heartbeat& request, Effects& out) {
  const CallId call = request.caller.call;
  if (!gate_.CheckMember(request.member, call, out)) return;
  if (ErrorPtr refusal = gate_.CheckIn(now, request.member)) return out.Fail(call, refusal);
  const Membership::Member& member = membership_.Get(request.member);
  if (member.incarnation != request.incarnation) {
    // A recoverable member may have two lives for a moment; that fails no one.
    if (job_.Recoverable(request.member)) return out.Succeed(call, HeartbeatTaken{service_});
    const ErrorPtr error = MakeError(
        Error{.code = absl::StatusCode::kAborted,
              .reason = Reason::kMemberRestarted,
              .message = absl::StrCat(
                  "Heartbeat: Incarnation ID mismatch: expecting ", member.incarnation.value(),
                  " but got ", request.incarnation.value(), " from ", job_.Describe(request.member),
                  ". The task has restarted and likely crashed earlier"),
              .origin = request.member});
    const bool stranger = !job_.lives.IsFormer(request.member, request.incarnation);
    // A former life's heartbeat was held up; only a new life shows that the member restarted.
    if (stranger && member.state == MemberState::kConnected)
      Fail(now, {{request.member, now, error}}, out);
    return out.Fail(call, error);
  }
  membership_.detector().HeardHeartbeat(now, request.member);
  out.Succeed(call, HeartbeatTaken{service_});
}

void MemberLifecycle::Handle(Time now, const PollForError& request, Effects& out) {
  const CallId call = request.caller.call;
  if (!gate_.CheckCaller(request.member, request.caller, out)) return;
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
  // In a failed attempt a poll is no reason to wait for the member any longer.
  if (!failed()) gate_.NoteLife(now, request.caller);
  polls_.Poll(now, request.member, call, root_cause_, out);
}

void MemberLifecycle::Handle(Time now, const ReportError& request, Effects& out) {
  const CallId call = request.caller.call;
  if (!gate_.CheckCaller(request.member, request.caller, out)) return;
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

void MemberLifecycle::Handle(Time now, MemberIndex member, const ReportProgress& request,
                             Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr refusal = gate_.CheckIn(now, member)) return out.Fail(call, refusal);
  if (request.phase.size() > job_.options.label_bytes_max) {
    return out.Fail(
        call, MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                        absl::StrCat(
                            "a phase of ", request.phase.size(), " bytes is over label_bytes_max (",
                            job_.options.label_bytes_max, "); say it in one or two words")));
  }
  // A report is a sign of life even if it says nothing new.
  membership_.detector().Heard(now, member);
  membership_.NoteProgress(member, request.step, request.phase);
  out.Succeed(call);
}

void MemberLifecycle::Handle(Time now, MemberIndex member, const SessionBroke& fact, Effects&) {
  // A silent link proves no death, so no grace begins.
  if (fact.silent) return membership_.detector().ConnectionSilent(now, member);
  membership_.detector().ConnectionBroke(now, member);
}

void MemberLifecycle::Handle(Time now, MemberIndex member, const OpenSession&, Effects&) {
  membership_.detector().ConnectionBack(now, member);
  membership_.detector().Heard(now, member);
}

void MemberLifecycle::Handle(Time now, MemberIndex member, const CloseSession&, Effects& out) {
  const ErrorPtr error = MakeError(Error{
      .code = absl::StatusCode::kUnavailable,
      .reason = Reason::kConnectionLost,
      .message = absl::StrCat(job_.Describe(member),
                              " was lost: it closed its session without leaving the job; if it had "
                              "finished, let it leave first, else look at the end of its log"),
      .origin = member});
  // A member that only waits to come in harms no other by going.
  if (registration_.MemberEnded(now, member, error, out)) return;
  // It has left or failed already, so closing its session is in order.
  if (membership_.Get(member).state != MemberState::kConnected) return;
  Fail(now, {{member, now, error}}, out);
}

// Going out.

void MemberLifecycle::Handle(Time now, const LeaveJob& request, Effects& out) {
  const CallId call = request.caller.call;
  if (!gate_.CheckCaller(request.member, request.caller, out)) return;
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
  // Without a barrier, or for a member that no other waits for, leaving takes effect at once.
  if (job_.options.shutdown_timeout <= absl::ZeroDuration() || job_.Recoverable(request.member)) {
    Disconnect(now, request.member, out);
    return out.Succeed(call);
  }
  if (!shutdown_.ended() && !shutdown_.open()) {
    // A participant that has failed never arrives, so the barrier must not wait for it.
    if (const ErrorPtr absent = shutdown_.Open(now)) FailShutdown(now, absent, out);
  }
  if (shutdown_.open() && !shutdown_.Includes(request.member)) {
    // It was recoverable when the others began to leave: nobody waits for it.
    Disconnect(now, request.member, out);
    return out.Succeed(call);
  }
  // Also where the barrier failed a moment ago: the caller gets its verdict.
  if (shutdown_.ended()) {
    Disconnect(now, request.member, out);
    return shutdown_.verdict() ? out.Fail(call, shutdown_.verdict()) : out.Succeed(call);
  }
  gate_.NoteLife(now, request.caller);
  // From here on it polls no step; a preemption must not wait for one.
  if (request.caller.native()) primitives_.MemberLeaves(now, request.member, out);
  if (!shutdown_.Arrive(request.member, call, out)) return;
  // After `Pass`: the barrier has ended, so that leaving does not fail it.
  for (const Gathering::Arrival& arrival : shutdown_.Pass(out)) {
    Disconnect(now, arrival.member, out);
    out.Succeed(arrival.call);
  }
}

void MemberLifecycle::Handle(Time now, const ResetMember& request, Effects& out) {
  const CallId call = request.caller.call;
  if (!gate_.CheckCaller(request.member, request.caller, out)) return;
  if (membership_.Get(request.member).state == MemberState::kDisconnected) {
    return out.Fail(call, MakeError(absl::StatusCode::kFailedPrecondition, Reason::kNotRegistered,
                                    absl::StrCat(job_.NameWithLife(request.member),
                                                 " is not connected; there is nothing to reset")));
  }
  Disconnect(now, request.member, out);
  out.Succeed(call);
}

void MemberLifecycle::Disconnect(Time now, MemberIndex member, Effects& out) {
  LOCKSTEP_DCHECK(membership_.Get(member).state != MemberState::kDisconnected);
  const ErrorPtr left = MakeError(
      Error{.code = absl::StatusCode::kCancelled,
            .reason = Reason::kMemberLeft,
            .message = absl::StrCat(job_.NameWithLife(member), ": the task has disconnected"),
            .origin = member});
  // Before the others hear of it: they no longer count on the member.
  membership_.Disconnect(now, member);
  out.Tell(Severity::kInfo,
           absl::StrCat("job '", job_.options.job, "': ", job_.Describe(member), " has left"),
           {LogKind::kMemberLeft, member});
  polls_.Cancel(now, member, left, out);
  primitives_.MemberGone(now, member, left, out);
  // A reset: a member that leaves by the barrier has ended it before.
  if (shutdown_.Includes(member)) FailShutdown(now, left, out);
  // Last: what follows from the departure still belongs to the attempt.
  if (ended()) {
    out.Tell(Severity::kInfo,
             absl::StrCat("job '", job_.options.job, "': attempt ", job_.attempt,
                          " ended: the last member, ", job_.NameWithLife(member), ", has left"),
             {LogKind::kAttemptEnded, {}});
  }
}

// What goes wrong, and who is told.

void MemberLifecycle::Fail(Time now, std::vector<MemberLoss> member_losses, Effects& out) {
  const MemberLosses list(job_, membership_, now, std::move(member_losses));
  // All are in error before the first consequence: nothing counts on one that is going to fail.
  for (const MemberLoss& loss : list.all()) {
    membership_.Fail(now, loss.member, loss.error);
  }
  for (const MemberLoss& loss : list.all()) {
    // A recoverable member's failure follows from no other: it fails alone.
    const bool follows = list.IsFatal(loss) && (failed() || &loss != &list.cause());
    KeepError(now, *loss.error, follows, job_, out);
  }
  // One error for all pollers: each member hears of one cause.
  const ErrorPtr told = list.Combined();
  out.Tell(
      list.fatal() ? Severity::kError : Severity::kWarning,
      absl::StrCat("job '", job_.options.job, "': ", told->message),
      {IsLoss(told->reason) ? LogKind::kMemberLost : LogKind::kMemberFailed, list.cause().member});
  // The root cause is told before what follows from it at barriers and in shutdown.
  if (list.fatal()) Propagate(now, told, out);
  LOCKSTEP_DCHECK(!list.fatal() || failed());
  for (const MemberLoss& loss : list.all()) {
    // With its own error, not the combined one: a barrier names whom it lacks.
    primitives_.MemberGone(now, loss.member, loss.error, out);
    if (shutdown_.Includes(loss.member)) FailShutdown(now, loss.error, out);
  }
}

void MemberLifecycle::ExpireBrokenLinks(Time now, std::optional<MemberIndex> newcomer,
                                        Effects& out) {
  std::vector<FailureDetector::Loss> losses = membership_.detector().BrokenSince(now);
  if (newcomer) {
    // Who has not come back since a restart, and comes in a new life, has died.
    const FailureDetector::Health& health = membership_.detector().Of(*newcomer);
    if (health.link == FailureDetector::Link::kRestarted) {
      losses.push_back({*newcomer, health.link_since, health.link});
    }
  }
  // A recoverable member is not waited for, so the newcomer does not depend on it.
  std::erase_if(
      losses, [this](const FailureDetector::Loss& loss) { return job_.Recoverable(loss.member); });
  if (!losses.empty()) Fail(now, MemberLossesOf(job_, losses, now), out);
}

void MemberLifecycle::Propagate(Time now, const ErrorPtr& error, Effects& out) {
  // The first failure stays the root cause (1); a recoverable job has none.
  if (job_.options.recoverable || root_cause_) return;
  // Before any member is told: the record goes out ahead of all replies.
  SetRootCause(error, out);
  out.Tell(Severity::kError,
           absl::StrCat("job '", job_.options.job, "': attempt ", job_.attempt, " failed",
                        error->origin ? " by " + job_.NameWithLife(*error->origin) : "", ": ",
                        std::string(ReasonName(error->reason)), "; its members are told"),
           {LogKind::kAttemptFailed, error->origin});
  // Members that poll hear it by their polls; the others only by finding themselves in error.
  if (polls_.used()) return polls_.FailAll(error, out);
  SetAllToError(now, error, out);
}

void MemberLifecycle::SetRootCause(const ErrorPtr& error, Effects& out) {
  LOCKSTEP_DCHECK(root_cause_ == nullptr && error != nullptr);  // (1)
  root_cause_ = error;
  out.records.push_back(record::AttemptFailed{error});
}

void MemberLifecycle::SetAllToError(Time now, const ErrorPtr& because, Effects& out) {
  const ErrorPtr error = MakeError(
      Error{.code = absl::StatusCode::kInternal,
            .reason = Reason::kClusterFailed,
            .message = absl::StrCat("All tasks were set to error because of: ", because->message),
            .origin = because->origin});
  for (int32_t i = 0; i < membership_.size(); ++i) {
    const MemberIndex member(i);
    // The first error of a member stays.
    if (membership_.Get(member).state == MemberState::kError) continue;
    membership_.Fail(now, member, error);
    // Each in turn: what it waits for and owns ends with it.
    primitives_.MemberGone(now, member, error, out);
  }
  LOCKSTEP_DCHECK(membership_.failed() == static_cast<size_t>(membership_.size()));
}

void MemberLifecycle::Handle(Time now, const ProcessEnded& fact, Effects& out) {
  // The report waited while its server was away, and the member's next life was faster.
  if (const auto& came = membership_.Get(fact.member).came; came && now - fact.ago < *came) {
    return out.Tell(Severity::kInfo,
                    absl::StrCat("job '", job_.options.job, "': the process (pid ", fact.pid,
                                 ") of ", job_.Name(fact.member), " before this one: ",
                                 DescribeEnd(fact), " ", FormatSpan(fact.ago), " ago"),
                    {LogKind::kProcessEnded, fact.member});
  }
  const FailureDetector::Health& health = membership_.detector().Of(fact.member);
  const bool by_agent = health.link == FailureDetector::Link::kAgentEnded;
  // A process ends by the loss of its agent, which is the cause.
  const ErrorPtr error = by_agent
                             ? LossError(job_, {fact.member, health.link_since, health.link}, now)
                             : ProcessEndedError(job_, fact);
  // Before everybody is in, nobody but itself is concerned: the others go on waiting for it.
  if (registration_.MemberEnded(now, fact.member, error, out)) {
    return out.Tell(
        Severity::kWarning,
        absl::StrCat("job '", job_.options.job, "': while it registered, ", error->message),
        {LogKind::kMemberLost, fact.member});
  }
  // After the registration, which it leaves without a loss.
  const Membership::Member& member = membership_.Get(fact.member);
  if (!member.ever_registered || IsOfAnotherRun(job_, member, fact.member)) {
    const bool failed = fact.signal != 0 || fact.exit_code != 0;
    return out.Tell(failed ? Severity::kWarning : Severity::kInfo,
                    absl::StrCat("job '", job_.options.job, "': ",
                                 DescribeProcess(job_, fact.member), ": ", DescribeEnd(fact)),
                    {LogKind::kProcessEnded, fact.member});
  }
  if (member.state == MemberState::kConnected) return Fail(now, {{fact.member, now, error}}, out);
  // Its connection was faster than its launcher, which alone knows how it ended.
  const bool by_connection = member.error &&
                             (member.error->reason == Reason::kConnectionLost ||
                              member.error->reason == Reason::kAgentEnded) &&
                             member.error->origin == fact.member;
  if (!by_connection) return;
  out.Tell(Severity::kWarning,
           absl::StrCat("job '", job_.options.job, "': ", job_.Describe(fact.member),
                        ", which was lost by its connection: ", DescribeLoss(fact)),
           {LogKind::kProcessEnded, fact.member});
}

// The member is not lost yet: it may clean up, and until it ends the others wait for it.
void MemberLifecycle::Handle(Time now, const ProcessEnding& fact, Effects& out) {
  const Membership::Member& member = membership_.Get(fact.member);
  const std::string who = IsOfAnotherRun(job_, member, fact.member)
                              ? absl::StrCat(DescribeProcess(job_, fact.member), ",")
                              : job_.Describe(fact.member);
  const Error error{.code = absl::StatusCode::kUnknown,
                    .reason = Reason::kReportedError,
                    .message = absl::StrCat(who, " raised ", fact.error),
                    .origin = fact.member};
  // Whoever loses a peer raises, too.
  const bool another_failed = job_.processes.AnyWritten(
      [](const ProcessRecord& process) { return process.failed && !process.former; });
  KeepError(now, error, failed() || another_failed, job_, out);
  out.Tell(Severity::kError, absl::StrCat("job '", job_.options.job, "': ", error.message),
           {LogKind::kMemberFailed, fact.member});
}

void MemberLifecycle::Handle(Time now, const HostLost& fact, Effects& out) {
  std::vector<MemberIndex> here = fact.members;
  std::erase_if(here, [this](MemberIndex member) {
    return membership_.Get(member).state == MemberState::kError;
  });
  std::vector<MemberLoss> losses;
  for (const MemberIndex member : here) {
    const ErrorPtr error = HostLostError(job_, fact, member, here.size());
    // Who only waits to come in harms no other by going.
    if (registration_.MemberEnded(now, member, error, out)) continue;
    if (membership_.Get(member).state != MemberState::kConnected) continue;
    losses.push_back({member, now - fact.unheard, error});
  }
  if (!losses.empty()) Fail(now, std::move(losses), out);
}

void MemberLifecycle::Handle(Time now, const DeadlineReached&, Effects& out) {
  // Losses first: they may end the registration or the shutdown with a better reason than time.
  const std::vector<FailureDetector::Loss> losses = membership_.detector().Overdue(now);
  if (!losses.empty()) Fail(now, MemberLossesOf(job_, losses, now), out);
  if (const ErrorPtr expired = registration_.ReachDeadline(now, out)) {
    FailRegistration(now, expired, out);
  }
  if (const ErrorPtr late = shutdown_.Overdue(now)) FailShutdown(now, late, out);
}

void MemberLifecycle::FailRegistration(Time now, const ErrorPtr& expired, Effects& out) {
  LOCKSTEP_DCHECK(registration_.idle());  // its callers have their answer
  KeepError(now, *expired, failed(), job_, out);
  out.Tell(Severity::kError, absl::StrCat("job '", job_.options.job, "': ", expired->message));
  Error failed_to_start = *expired;
  failed_to_start.code = absl::StatusCode::kInternal;
  failed_to_start.message = absl::StrCat("Cluster registration failed: ", expired->message);
  const ErrorPtr error = MakeError(std::move(failed_to_start));
  // An attempt that never began is over for recoverable members, too: nobody is in it to come back
  // to, and only a failed one gives way to the next.
  Propagate(now, error, out);
  // `Propagate` leaves a recoverable job without one.
  if (!failed()) SetRootCause(error, out);
  SetAllToError(now, error, out);
}

void MemberLifecycle::FailShutdown(Time now, const ErrorPtr& inner, Effects& out) {
  LOCKSTEP_DCHECK(shutdown_.open());
  // First: those who wait at the barrier get its verdict, not an error of the attempt.
  shutdown_.Fail(inner, out);
  const ErrorPtr verdict = shutdown_.verdict();
  // In a failed attempt the verdict follows from what people know already.
  if (!failed()) {
    KeepError(now, *verdict, false, job_, out);
    out.Tell(Severity::kError, absl::StrCat("job '", job_.options.job, "': ", verdict->message),
             {LogKind::kBarrierFailed, {}});
  }
  Propagate(now, verdict, out);
  // Members that poll as well: none of them can leave in order any more.
  SetAllToError(now, verdict, out);
}

void MemberLifecycle::Apply(Time, const record::AttemptFailed& record) {
  root_cause_ = record.root_cause;
}

void MemberLifecycle::Apply(Time at, const record::MemberChanged& record) {
  // A member's record is the first sign that the attempt had begun.
  registration_.RestoreBegun(at);
  if (!record.role.empty()) job_.SettleRole(record.role);
  membership_.Restore(at, record);
  if (record.state == MemberState::kConnected) job_.processes.SomebodyJoined();
}

void MemberLifecycle::Snapshot(std::vector<TimedRecord>& records) const {
  if (failed()) records.push_back({Time(), record::AttemptFailed{root_cause_}});
}

}  // namespace lockstep::coord

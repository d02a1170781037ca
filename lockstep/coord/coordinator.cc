#include "lockstep/coord/coordinator.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/coord/attempt.h"
#include "lockstep/coord/job_record.h"
#include "lockstep/coord/key_rights.h"
#include "lockstep/coord/member_rights.h"

namespace lockstep::coord {
namespace {

// Versions begin anywhere, so that one that another server told is most likely none of ours. Small
// enough for JSON.
int64_t DrawVersion(uint64_t seed, uint64_t counter) {
  return 1 + static_cast<int64_t>(DrawNumber(seed, counter) >> 24);
}

using Wait = std::pair<WaitIndex::Kind, std::string>;

// What a request waits for, should it be parked.
template <class Request>
std::optional<Wait> WaitOf(const Request&) {
  static_assert(!Request::kTraits.waits, "say for what it waits");
  return std::nullopt;
}
std::optional<Wait> WaitOf(const ArriveAtBarrier& request) {
  return Wait(WaitIndex::Kind::kBarrier, request.id);
}
std::optional<Wait> WaitOf(const AgreeOnIndex& request) {
  return Wait(WaitIndex::Kind::kIndex, request.name);
}
std::optional<Wait> WaitOf(const LeaveJob&) { return Wait(WaitIndex::Kind::kLeave, ""); }
std::optional<Wait> WaitOf(const GetAliveMembers&) { return Wait(WaitIndex::Kind::kAlive, ""); }
std::optional<Wait> WaitOf(const GetKey& request) {
  // Each stock client asks so as long as it lives, which explains no hang.
  if (AsksInBackground(request)) return std::nullopt;
  return Wait(WaitIndex::Kind::kKey, request.key);
}
std::optional<Wait> WaitOf(const GetKeys& request) {
  return Wait(WaitIndex::Kind::kKey, request.keys.empty() ? "" : request.keys.front());
}

// Whether it was a member of the attempt before this one, which all have left.
bool LeftBefore(const std::optional<Seat>& seat, const std::optional<FormerAttempt>& former) {
  return seat && former && former->service == seat->service && !former->root_cause;
}

bool IsAnswered(CallId call, size_t replies_before, const Effects& out) {
  return std::any_of(out.replies.begin() + static_cast<ptrdiff_t>(replies_before),
                     out.replies.end(), [call](const Reply& reply) { return reply.call == call; });
}

ErrorPtr Stopped(const std::string& job, bool native) {
  return MakeError(
      Error{.code = native ? absl::StatusCode::kUnavailable : absl::StatusCode::kInternal,
            .reason = Reason::kServiceStopped,
            .message = absl::StrCat("Coordination service of job '", job, "' has been shut down"),
            .from_service = false});
}

// Through which agent the member calls.
template <class Request>
void NoteAgent(const Request& request, const JobRecord& job, MemberAgents& agents) {
  // These two come again and again, from every process by itself.
  if constexpr (std::is_same_v<Request, Heartbeat> || std::is_same_v<Request, PollForError>) {
    if (job.IsMember(request.member)) agents.Note(request.member, request.caller.agent);
  }
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options)
    : job_(std::make_unique<JobRecord>(options)),
      attempts_(*job_),
      sessions_(*job_, attempts_),
      admission_(*job_, attempts_),
      process_reports_(*job_),
      job_watch_(*job_) {
  LOCKSTEP_CHECK(options.size > 0 && options.size <= kMembersMost);
  job_->changes.Restart(DrawVersion(options.incarnation_seed, ~uint64_t{0}));
}

Coordinator::~Coordinator() = default;

const CoordinatorOptions& Coordinator::options() const { return job_->options; }
ServiceIncarnation Coordinator::service_incarnation() const {
  return attempts_.current().service();
}

size_t Coordinator::CountConnected(SessionId agent) const {
  return sessions_.agents().CountMembersOf(agent);
}

Effects Coordinator::Handle(Time now, Event event, const NoRoom& no_room) {
  Effects out;
  // For this event only: the machines read it where they would hold more.
  job_->no_room = no_room;
  attempts_.Record(out);  // before all other records
  std::visit(
      [&](auto& e) {
        if constexpr (requires { e.caller; }) {
          HandleRequest(now, e, out);
        } else {
          HandleFact(now, e, out);
        }
      },
      event);
  Settle(now, out);
  // After all effects: a member that joined in this event has its new name.
  for (LogEntry& entry : out.log) {
    entry.attempt = job_->attempt;
    if (entry.about.member) entry.member = job_->NameWithLife(*entry.about.member);
  }
  return out;
}

void Coordinator::Settle(Time now, Effects& out) {
  Attempt& attempt = attempts_.current();
  attempt.Settle(now, out);
  // Behind the attempt, which may have let members in; before the watchers, whom that concerns.
  sessions_.Settle(attempt.TakeDeleted(), out);
  // Whatever was answered in this event waits no longer, whichever machine held it.
  for (const Reply& reply : out.replies) job_->waits.Forget(reply.call);
  if (attempt.state() != told_state_) {
    told_state_ = attempt.state();
    job_->changes.TouchJob();
  }
  job_watch_.Flush(now, attempt, out);
}

template <class Request>
void Coordinator::HandleRequest(Time now, Request& request, Effects& out) {
  static_assert(!(Request::kTraits.takes_effect && Request::kTraits.waits),
                "an effect is answered at once, so that its answer can be kept");
  static_assert(!Request::kTraits.writes || Request::kTraits.takes_effect,
                "what makes the job hold more must not happen twice");
  const CallId call = request.caller.call;
  if (stopped_) return out.Fail(call, Stopped(job_->options.job, request.caller.native()));
  // A native request names its session; which attempt it is of follows from that.
  if (request.caller.native()) return HandleNative(now, request, out);
  // An agent asks again what it has no answer to, when it has found the server again.
  SessionTable::Session* agent = nullptr;
  if (!request.caller.agent.none()) {
    agent = sessions_.Begin(request.caller, Request::kTraits, out);
    if (agent == nullptr) return;
  }
  // First: whoever speaks for another member learns nothing else.
  const auto lives_as = attempts_.current().membership().Find(request.caller.incarnation);
  if (ErrorPtr refusal = CheckBound(std::as_const(request), lives_as, job_->options.job)) {
    return out.Fail(call, std::move(refusal));
  }
  // Before any machine sees it, since a request of another attempt must change nothing (2).
  if (request.caller.service != attempts_.current().service()) {
    return out.Fail(call, attempts_.WrongService(request.caller.service, false));
  }
  NoteAgent(std::as_const(request), *job_, sessions_.agents());
  // After the attempt: a caller of another one has to learn that, full or not.
  if (Request::kTraits.writes && job_->no_room.for_new)
    return out.Fail(call, job_->no_room.for_new);
  // Copied, since `Run` moves the request. The sizes tell what this request adds.
  const Caller asked = request.caller;
  const size_t records = out.records.size();
  const size_t replies = out.replies.size();
  Run(now, request, lives_as, out);
  if (agent != nullptr && Request::kTraits.takes_effect) {
    sessions_.KeepAnswer(*agent, asked, records, replies, out);
  }
}

template <class Request>
void Coordinator::HandleNative(Time now, Request& request, Effects& out) {
  const Caller& caller = request.caller;
  SessionTable::Session* session = sessions_.Find(caller.session);
  if (session == nullptr) return out.Fail(caller.call, sessions_.Unknown());
  if (session->seat) {
    ErrorPtr refusal = CheckBound(caller.bound, session->seat->member, job_->options.job);
    if (refusal) return out.Fail(caller.call, std::move(refusal));
  }
  // Before all checks: a request that took effect is answered as then, whatever has become of the
  // caller since.
  if constexpr (Request::kTraits.takes_effect) {
    const std::string* value = nullptr;
    if constexpr (std::is_same_v<Request, CompareAndSetKey>) value = &request.value;
    if (sessions_.AnswerAgain(*session, caller, value, out)) return;
  } else if (const ErrorPtr taken = sessions_.CheckNumber(*session, caller)) {
    // No answer but its own: a link whose CloseSession succeeds forgets its session.
    return out.Fail(caller.call, taken);
  }
  if constexpr (std::is_same_v<Request, JoinJob>) {
    admission_.Join(now, *session, request, out);
  } else if constexpr (std::is_same_v<Request, CloseSession>) {
    sessions_.Close(now, request, out);
  } else {
    // A retry: all members have left that attempt, and the answer was lost.
    if (std::is_same_v<Request, LeaveJob> && LeftBefore(session->seat, job_->former))
      return out.Succeed(caller.call);
    ErrorPtr refusal = sessions_.Check(*session, Request::kTraits, caller);
    if (!refusal && Request::kTraits.writes) refusal = job_->no_room.for_new;
    if (refusal) return out.Fail(caller.call, refusal);
    LOCKSTEP_DCHECK(session->seat.has_value() || Request::kTraits.for_tools);
    Attempt& attempt = attempts_.current();
    // From here on the request looks as a stock member's does.
    request.caller.service = attempt.service();
    if (session->seat) {
      request.caller.incarnation = session->seat->incarnation;
      // The seat decides who asks, whatever the request says of itself.
      if constexpr (requires { request.member; }) request.member = session->seat->member;
      attempt.Heard(now, session->seat->member);
    }
    // Copied, since `Run` moves the request. The sizes tell what this request adds.
    const Caller asked = caller;
    const size_t records = out.records.size();
    const size_t replies = out.replies.size();
    if constexpr (std::is_same_v<Request, WatchJob>) {
      job_watch_.Watch(now, request, attempt, out);
    } else if constexpr (std::is_same_v<Request, ReportProgress>) {
      attempt.Handle(now, session->seat->member, request, out);
    } else {
      // Of the seat: a client chooses its incarnation itself.
      const auto asks = session->seat ? std::optional(session->seat->member) : std::nullopt;
      Run(now, request, asks, out);
    }
    if (Request::kTraits.takes_effect) {
      sessions_.KeepAnswer(*session, asked, records, replies, out);
    }
  }
}

template <class Request>
void Coordinator::Run(Time now, Request& request, std::optional<MemberIndex> asks, Effects& out) {
  // Both are read before the request is moved.
  const Caller caller = request.caller;
  const size_t replies = out.replies.size();
  std::optional<Wait> wait = WaitOf(request);
  std::optional<MemberIndex> member = asks;
  if constexpr (requires { request.member; }) member = request.member;
  if (ErrorPtr refusal = CheckKeys(std::as_const(request), member)) {
    return out.Fail(caller.call, std::move(refusal));
  }
  if constexpr (!Request::kTraits.in_session) {
    attempts_.current().Handle(now, std::move(request), out);
  } else {
    out.Fail(caller.call, MakeError(absl::StatusCode::kNotFound, Reason::kUnknownSession,
                                    "this is asked in a session: open one first (OpenSession)"));
  }
  // Only calls that are parked; an answered one waits for nothing.
  if (wait && member && job_->IsMember(*member) && !IsAnswered(caller.call, replies, out)) {
    job_->waits.Note(now, caller.call, *member, wait->first, std::move(wait->second));
  }
}

void Coordinator::HandleFact(Time now, const RegisterMember& request, Effects& out) {
  if (stopped_) return out.Fail(request.call, Stopped(job_->options.job, false));
  if (ErrorPtr refusal = CheckBound(request.bound, request.member, job_->options.job)) {
    return out.Fail(request.call, std::move(refusal));
  }
  if (job_->IsMember(request.member)) sessions_.agents().Note(request.member, request.agent);
  // Not a request of the attempt: it may open the next one.
  admission_.Register(now, request, out);
}

void Coordinator::HandleFact(Time now, const OpenSession& request, Effects& out) {
  if (stopped_) return out.Fail(request.call, Stopped(job_->options.job, true));
  sessions_.Open(now, request, out);
}

void Coordinator::HandleFact(Time now, const SessionBroke& fact, Effects& out) {
  if (!stopped_) sessions_.Broke(now, fact, out);
}

void Coordinator::HandleFact(Time now, const AnsweredThrough& fact, Effects&) {
  if (!stopped_) sessions_.Answered(now, fact);
}

void Coordinator::HandleFact(Time now, const CallLeft& fact, Effects& out) {
  // First: the wait is noted whichever machine holds the call.
  job_->waits.Forget(fact.call);
  if (job_watch_.Forget(fact.call)) return;
  attempts_.current().Handle(now, fact, out);
}

void Coordinator::HandleFact(Time now, const DeadlineReached& fact, Effects& out) {
  if (stopped_) return;
  attempts_.current().Handle(now, fact, out);
  // After the attempt, which may give up a member: its session is then free to expire.
  sessions_.ReachDeadline(now, out);
}

// What launchers report of processes is for people even when the job has stopped.

void Coordinator::HandleFact(Time now, const ProcessStarted& fact, Effects& out) {
  process_reports_.Note(now, fact, /*alone=*/attempts_.current().empty(), out);
}

void Coordinator::HandleFact(Time now, const ProcessEnded& fact, Effects& out) {
  // A late report of an older process is no news to the attempt.
  const bool news = process_reports_.Note(now, fact, out);
  if (news && !stopped_) attempts_.current().Handle(now, fact, out);
}

void Coordinator::HandleFact(Time now, const ProcessEnding& fact, Effects& out) {
  const bool news = process_reports_.Note(fact);
  if (news && !stopped_) attempts_.current().Handle(now, fact, out);
}

void Coordinator::HandleFact(Time now, const ProcessStopped& fact, Effects& out) {
  process_reports_.NoteStopped(now, fact.member, fact.pid, true, out);
}

void Coordinator::HandleFact(Time now, const ProcessContinued& fact, Effects& out) {
  process_reports_.NoteStopped(now, fact.member, fact.pid, false, out);
}

void Coordinator::HandleFact(Time now, const RunBegan& fact, Effects& out) {
  process_reports_.Note(now, fact, out);
}

void Coordinator::HandleFact(Time now, const HostLost& fact, Effects& out) {
  if (stopped_ || fact.agent.none()) return;
  HostLost lost = fact;
  lost.members = sessions_.agents().MembersOf(fact.agent);
  attempts_.current().Handle(now, std::move(lost), out);
  // Behind its members, who were told why: whoever comes back in it finds it unknown.
  sessions_.End(fact.agent, out);
}

void Coordinator::HandleFact(Time now, const Stop& fact, Effects& out) {
  if (stopped_) return;
  stopped_ = true;
  // After `stopped_`: what is parked is answered once, and nothing is parked any more.
  attempts_.current().Handle(now, fact, out);
  job_watch_.FailAll(
      MakeError(Error{.code = absl::StatusCode::kCancelled,
                      .reason = Reason::kServiceStopped,
                      .message = absl::StrCat("the coordination service of job '",
                                              job_->options.job, "' is shutting down"),
                      .from_service = false}),
      out);
}

void Coordinator::HandleFact(Time now, const Restored&, Effects& out) {
  LOCKSTEP_DCHECK(!stopped_);
  // Sessions and members each get their time to come back, from now on.
  sessions_.Restored(now);
  const int64_t version =
      DrawVersion(job_->options.incarnation_seed, static_cast<uint64_t>(now.nanoseconds()));
  job_->changes.Restart(version);
  attempts_.current().Restored(now, version, out);
  told_state_ = attempts_.current().state();
}

Time Coordinator::NextDeadline() const {
  // A stopped job has answered all that was parked; no deadline is left.
  if (stopped_) return Time::Infinite();
  return std::min(
      {attempts_.current().NextDeadline(), sessions_.NextDeadline(), job_watch_.NextDeadline()});
}

bool Coordinator::ForEachKeyBelow(absl::string_view directory, absl::string_view after,
                                  size_t keys_max, KeyTable::Visitor visit) const {
  return attempts_.current().keys().table().ForEachBelow(directory, after, keys_max, visit);
}

CoordinatorMemory Coordinator::Memory() const {
  // The machines, before anybody comes.
  constexpr size_t kBaseBytes = size_t{16} << 10;
  constexpr size_t kWaitBytes = 320;
  return {.keys = attempts_.current().keys().memory(),
          .key_count = attempts_.current().keys().table().size(),
          .others = kBaseBytes + job_->memory() + attempts_.current().memory() +
                    sessions_.table().memory() +
                    (attempts_.current().waits() + job_watch_.waits()) * kWaitBytes};
}

bool Coordinator::ShowsNewerRun() const {
  // While a member is in, the attempt is what people ask about.
  if (stopped_ || !attempts_.current().empty() || !job_->processes.HasNewerRun()) return false;
  return attempts_.over() || attempts_.current().state() == AttemptState::kWaiting;
}

// What processes of a newer run join begins the next attempt, once this one is over.
int64_t Coordinator::attempt() const {
  return job_->attempt + (ShowsNewerRun() && attempts_.over() ? 1 : 0);
}

CoordinatorView Coordinator::OfAttempt(Time now) const {
  CoordinatorView view{
      .job = job_->options.job, .size = job_->options.size, .attempt = job_->attempt};
  for (const auto& [version, error] : job_->changes.errors()) view.errors.push_back(error);
  attempts_.current().FillView(now, view);
  view.waits += job_watch_.waits();
  // Whatever state the attempt was left in.
  if (stopped_) view.state = AttemptState::kStopped;
  return view;
}

CoordinatorView Coordinator::View(Time now) const {
  CoordinatorView view = OfAttempt(now);
  std::optional<HostsHeard> heard;
  for (int32_t i = 0; i < view.size; ++i) {
    view.members.push_back(attempts_.current().views().Of(now, MemberIndex(i)));
    attempts_.current().views().NameSilentHost(now, view.members.back(), heard);
  }
  return view;
}

CoordinatorView Coordinator::Summary(Time now) const {
  CoordinatorView view = OfAttempt(now);
  if (!ShowsNewerRun()) return view;
  view.attempt = attempt();
  // Errors and members of an attempt that is over are former.
  const bool goes_on = view.preemption && view.preemption->state.phase != PreemptionPhase::kEnded;
  if (attempts_.over() && !goes_on) view.preemption.reset();
  // The newer run waits for its first member; the attempt's own rows are not its.
  view.state = AttemptState::kWaiting;
  view.started = now;
  view.somebody_came = false;
  view.barriers.clear();
  view.barriers_open = 0;
  return view;
}

MemberView Coordinator::ViewOf(Time now, MemberIndex member,
                               std::optional<HostsHeard>& heard) const {
  // The members of the attempt say nothing about the processes of a newer run.
  if (ShowsNewerRun()) return attempts_.current().views().OfProcess(now, member);
  MemberView view = attempts_.current().views().Of(now, member);
  attempts_.current().views().NameSilentHost(now, view, heard);
  return view;
}

MemberView Coordinator::WatchedViewOf(Time now, MemberIndex member) const {
  return attempts_.current().views().Of(now, member);
}

std::string Coordinator::NameOf(MemberIndex member) const { return job_->Name(member); }

bool Coordinator::AnyProcessRuns() const { return job_->processes.AnyRuns(); }

size_t Coordinator::CountConnected() const { return attempts_.current().views().CountConnected(); }

}  // namespace lockstep::coord

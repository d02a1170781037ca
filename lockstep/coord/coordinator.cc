#include "lockstep/coord/coordinator.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/coord/attempt.h"
#include "lockstep/coord/job_record.h"

namespace lockstep::coord {
namespace {

// Service incarnations of two servers or two attempts never look alike.
ServiceIncarnation Draw(uint64_t seed, int64_t attempt) {
  return ServiceIncarnation(DrawNumber(seed, static_cast<uint64_t>(attempt)));
}

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

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options)
    : job_(std::make_unique<JobRecord>(options)),
      sessions_(job_->options),
      process_reports_(*job_),
      job_watch_(*job_) {
  LOCKSTEP_CHECK(options.size > 0 && options.size <= kMembersMax);
  job_->attempt = 1;
  job_->changes.Restart(DrawVersion(options.incarnation_seed, ~uint64_t{0}));
  attempt_ = std::make_unique<Attempt>(*job_, Draw(options.incarnation_seed, job_->attempt));
}

Coordinator::~Coordinator() = default;

const CoordinatorOptions& Coordinator::options() const { return job_->options; }
ServiceIncarnation Coordinator::service_incarnation() const { return attempt_->service(); }

Effects Coordinator::Handle(Time now, Event event, const NoRoom& no_room) {
  Effects out;
  job_->no_room = no_room;
  if (!begun_) {
    begun_ = true;
    out.records.push_back(record::AttemptBegan{job_->attempt, attempt_->service()});
  }
  std::visit(
      [&](auto& e) {
        if constexpr (requires { e.caller; }) {
          HandleRequest(now, e, out);
        } else {
          HandleOther(now, e, out);
        }
      },
      event);
  Settle(now, out);
  for (Notice& notice : out.notices) {
    notice.attempt = job_->attempt;
    if (notice.about.member) notice.member = job_->NameWithLife(*notice.about.member);
  }
  return out;
}

void Coordinator::Settle(Time now, Effects& out) {
  attempt_->Settle(now, out);
  // Their answers are kept as if they had come with the request.
  for (const KeyDeletions::Ended& ended : attempt_->TakeDeleted()) {
    SessionTable::Session* const session = sessions_.Find(ended.caller.session);
    if (session == nullptr || ended.caller.number <= session->answered_through) continue;
    sessions_.Keep(*session,
                   {.session = ended.caller.session,
                    .number = ended.caller.number,
                    .revision = ended.answer.revision,
                    .deleted = ended.answer.deleted},
                   out);
  }
  for (const Reply& reply : out.replies) {
    job_->waits.Forget(reply.call);
    const auto* joined = std::get_if<Joined>(&reply.answer);
    if (joined == nullptr || reply.error) continue;
    const Membership::Member& member = attempt_->membership().Get(joined->member);
    sessions_.Sit(member.session,
                  {joined->member, member.incarnation, job_->attempt, attempt_->service()});
  }
  if (attempt_->state() != told_state_) {
    told_state_ = attempt_->state();
    job_->changes.TouchJob();
  }
  job_watch_.Flush(now, *attempt_, out);
}

template <class Request>
void Coordinator::HandleRequest(Time now, Request& request, Effects& out) {
  const CallId call = request.caller.call;
  if (stopped_) return out.Fail(call, Stopped(job_->options.job, request.caller.native()));
  if (request.caller.native()) return HandleNative(now, request, out);
  if (ErrorPtr refusal = CheckCaller(request.caller)) return out.Fail(call, refusal);
  if (Request::kTraits.writes && job_->no_room.for_new)
    return out.Fail(call, job_->no_room.for_new);
  Run(now, request, out);
}

template <class Request>
void Coordinator::HandleNative(Time now, Request& request, Effects& out) {
  const Caller& caller = request.caller;
  SessionTable::Session* session = sessions_.Find(caller.session);
  if (session == nullptr) {
    return out.Fail(caller.call, MakeError(absl::StatusCode::kNotFound, Reason::kUnknownSession,
                                           absl::StrCat("job '", job_->options.job,
                                                        "' does not know this session: open it "
                                                        "first (OpenSession)")));
  }
  if (const record::AnswerKept* kept = sessions_.Kept(*session, caller.number)) {
    const std::string* value = nullptr;
    if constexpr (std::is_same_v<Request, CompareAndSetKey>) value = &request.value;
    return out.Succeed(caller.call, AnswerAgain(*kept, value));
  }
  if constexpr (std::is_same_v<Request, JoinJob>) {
    Join(now, *session, request, out);
  } else if constexpr (std::is_same_v<Request, CloseSession>) {
    EndSession(now, request, out);
  } else {
    if (std::is_same_v<Request, LeaveJob> && LeftBefore(session->seat, job_->former))
      return out.Succeed(caller.call);
    ErrorPtr refusal = CheckSeat(*session, Request::kTraits.for_tools);
    if (!refusal && Request::kTraits.takes_effect)
      refusal = sessions_.CheckKeep(*session, caller.number);
    if (!refusal && Request::kTraits.writes) refusal = job_->no_room.for_new;
    if (refusal) return out.Fail(caller.call, refusal);
    request.caller.service = attempt_->service();
    if (session->seat) {
      request.caller.incarnation = session->seat->incarnation;
      if constexpr (requires { request.member; }) request.member = session->seat->member;
      attempt_->Heard(now, session->seat->member);
    }
    const Caller asked = caller;
    const size_t records = out.records.size();
    const size_t replies = out.replies.size();
    if constexpr (std::is_same_v<Request, WatchJob>) {
      WatchTheJob(now, request, out);
    } else if constexpr (std::is_same_v<Request, ReportProgress>) {
      attempt_->Handle(now, session->seat->member, request, out);
    } else {
      Run(now, request, out);
    }
    if (Request::kTraits.takes_effect) KeepAnswer(*session, asked, records, replies, out);
  }
}

template <class Request>
void Coordinator::Run(Time now, Request& request, Effects& out) {
  const Caller caller = request.caller;
  const size_t replies = out.replies.size();
  std::optional<Wait> wait = WaitOf(request);
  std::optional<MemberIndex> member = attempt_->membership().Find(caller.incarnation);
  if constexpr (requires { request.member; }) member = request.member;
  if constexpr (!Request::kTraits.in_session) {
    attempt_->Handle(now, std::move(request), out);
  } else {
    out.Fail(caller.call, MakeError(absl::StatusCode::kNotFound, Reason::kUnknownSession,
                                    "this is asked in a session: open one first (OpenSession)"));
  }
  if (wait && member && job_->IsMember(*member) && !IsAnswered(caller.call, replies, out)) {
    job_->waits.Note(now, caller.call, *member, wait->first, std::move(wait->second));
  }
}

ErrorPtr Coordinator::CheckCaller(const Caller& caller) const {
  if (caller.service == attempt_->service()) return nullptr;
  return WrongService(caller.service, false);
}

ErrorPtr Coordinator::WrongService(ServiceIncarnation claimed, bool native) const {
  std::string text =
      absl::StrCat("wrong service incarnation: expecting ", attempt_->service().value(),
                   " but got ", claimed.value(), "; job '", job_->options.job, "' is at attempt ",
                   job_->attempt, ", the caller is not registered in it");
  const std::optional<FormerAttempt>& former = job_->former;
  if (former && former->service == claimed) {
    absl::StrAppend(&text, "; attempt ", former->attempt, ", which it was in, is over: ",
                    former->root_cause ? former->root_cause->message : "all its members had left");
  }
  if (native) absl::StrAppend(&text, "; join again");
  return MakeError(Error{.code = absl::StatusCode::kInternal,
                         .reason = Reason::kWrongServiceIncarnation,
                         .message = std::move(text),
                         .right_service = attempt_->service()});
}

void Coordinator::HandleOther(Time now, const OpenSession& request, Effects& out) {
  if (stopped_) return out.Fail(request.call, Stopped(job_->options.job, true));
  bool resumed = false;
  const bool known = sessions_.Find(request.session) != nullptr;
  if (!known && job_->no_room.for_small) return out.Fail(request.call, job_->no_room.for_small);
  if (ErrorPtr refusal = sessions_.Open(now, request, &resumed, out)) {
    return out.Fail(request.call, refusal);
  }
  const SessionTable::Session& session = *sessions_.Find(request.session);
  if (IsLiveMember(session)) attempt_->Handle(now, session.seat->member, request, out);
  out.Succeed(
      request.call,
      SessionOpened{.resumed = resumed, .attempt = job_->attempt, .size = job_->options.size});
}

void Coordinator::HandleOther(Time now, const RegisterMember& request, Effects& out) {
  if (stopped_) return out.Fail(request.call, Stopped(job_->options.job, false));
  const Admission admission{.call = request.call,
                            .member = request.member,
                            .incarnation = request.incarnation,
                            .deadline = request.deadline,
                            .peer = request.peer,
                            .role = request.role,
                            .recoverable = request.recoverable};
  if (!job_->IsMember(request.member)) return attempt_->Admit(now, admission, out);
  if (job_->no_room.for_small && job_->lives.IsNew(request.member, request.incarnation)) {
    return out.Fail(request.call, job_->no_room.for_small);
  }
  const bool opens = OpensNext(request.member, request.incarnation);
  if (ErrorPtr refusal = opens ? CheckNextAttempt() : nullptr) {
    return out.Fail(request.call, refusal);
  }
  if (opens) OpenNextAttempt(now, job_->attempt + 1, out);
  const RoleRecord* role = nullptr;
  if (ErrorPtr refusal = job_->roles().Find(request.role, &role)) {
    // Roles that were given differ in size; who does not say its own is known by its index.
    if (!request.role.empty()) return out.Fail(request.call, refusal);
  } else if (!request.role.empty() && role->name != job_->roles().Of(request.member).name &&
             !job_->options.roles.empty()) {
    return out.Fail(request.call,
                    MakeError(absl::StatusCode::kInvalidArgument, Reason::kUnknownMember,
                              absl::StrCat(job_->Name(request.member), " is not of role '",
                                           request.role, "': job '", job_->options.job,
                                           "' has the members ", job_->roles().NameMembers())));
  }
  if (!opens && !attempt_->failed() && job_->lives.IsNew(request.member, request.incarnation)) {
    // A stock process that takes another's place ends the attempt; it must not end that of a native
    // member, which is known to live.
    if (attempt_->membership().Get(request.member).native()) {
      if (ErrorPtr refusal = CheckHolder(now, request.member, request.incarnation)) {
        return out.Fail(request.call, refusal);
      }
    }
    // Refused when that fails the attempt, as a retry will open the next one.
    attempt_->GiveUpBroken(now, request.member, out);
  }
  attempt_->Admit(now, admission, out);
}

bool Coordinator::OpensNext(MemberIndex member, Incarnation incarnation) const {
  if (job_->lives.IsFormer(member, incarnation)) return false;
  if (attempt_->failed()) return !attempt_->membership().lives().Knew(member, incarnation);
  return attempt_->ended();
}

ErrorPtr Coordinator::CheckNextAttempt() const {
  if (job_->attempt < kAttemptMax) return nullptr;
  return MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                   absl::StrCat("job '", job_->options.job, "' has had ", job_->attempt,
                                " attempts, which is the limit attempt_max: delete the job and "
                                "create it again"));
}

void Coordinator::OpenNextAttempt(Time now, int64_t number, Effects& out) {
  attempt_->RecordEnd(now, out);
  const std::unique_ptr<Attempt> old = std::move(attempt_);
  const int64_t revision = old->keys().table().revision() + 1;
  job_->former = {job_->attempt, old->service(), old->root_cause()};
  job_->attempt = number;
  job_->BeginAttempt();
  attempt_ = std::make_unique<Attempt>(*job_, Draw(job_->options.incarnation_seed, job_->attempt),
                                       revision);
  out.records.push_back(record::AttemptBegan{job_->attempt, attempt_->service()});
  out.Tell(
      Severity::kInfo,
      absl::StrCat("job '", job_->options.job, "': attempt ", job_->attempt, " begins; attempt ",
                   job_->former->attempt, old->failed() ? " failed" : " ended"),
      {NoticeKind::kAttemptBegan, {}});
  old->Close(WrongService(old->service(), false), revision, out);
}

void Coordinator::HandleOther(Time now, const CallLeft& fact, Effects& out) {
  job_->waits.Forget(fact.call);
  if (job_watch_.Forget(fact.call)) return;
  attempt_->Handle(now, fact, out);
}

void Coordinator::HandleOther(Time now, const DeadlineReached& fact, Effects& out) {
  if (stopped_) return;
  attempt_->Handle(now, fact, out);
  sessions_.Expire(
      now, [this](const SessionTable::Session& session) { return IsLiveMember(session); }, out);
}

// What launchers report of processes is for people even when the job has stopped.

void Coordinator::HandleOther(Time now, const ProcessStarted& fact, Effects& out) {
  process_reports_.Note(now, fact, /*alone=*/attempt_->empty(), out);
}

void Coordinator::HandleOther(Time now, const ProcessEnded& fact, Effects& out) {
  const bool news = process_reports_.Note(now, fact, out);
  if (news && !stopped_) attempt_->Handle(now, fact, out);
}

void Coordinator::HandleOther(Time now, const ProcessEnding& fact, Effects& out) {
  const bool news = process_reports_.Note(fact);
  if (news && !stopped_) attempt_->Handle(now, fact, out);
}

void Coordinator::HandleOther(Time now, const ProcessStopped& fact, Effects& out) {
  process_reports_.NoteStopped(now, fact.member, fact.pid, true, out);
}

void Coordinator::HandleOther(Time now, const ProcessContinued& fact, Effects& out) {
  process_reports_.NoteStopped(now, fact.member, fact.pid, false, out);
}

void Coordinator::HandleOther(Time now, const RunBegan& fact, Effects& out) {
  process_reports_.Note(now, fact, out);
}

void Coordinator::HandleOther(Time now, const Stop& fact, Effects& out) {
  if (stopped_) return;
  stopped_ = true;
  attempt_->Handle(now, fact, out);
  job_watch_.FailAll(
      MakeError(Error{.code = absl::StatusCode::kCancelled,
                      .reason = Reason::kServiceStopped,
                      .message = absl::StrCat("the coordination service of job '",
                                              job_->options.job, "' is shutting down"),
                      .from_service = false}),
      out);
}

void Coordinator::HandleOther(Time now, const Restored&, Effects& out) {
  sessions_.Restored(now);
  const int64_t version =
      DrawVersion(job_->options.incarnation_seed, static_cast<uint64_t>(now.nanoseconds()));
  job_->changes.Restart(version);
  attempt_->Restored(now, version, out);
  told_state_ = attempt_->state();
}

Time Coordinator::NextDeadline() const {
  if (stopped_) return Time::Infinite();
  return std::min({attempt_->NextDeadline(), sessions_.NextDeadline(), job_watch_.NextDeadline()});
}

bool Coordinator::ForEachKeyBelow(absl::string_view directory, absl::string_view after,
                                  size_t keys_max, KeyTable::Visitor visit) const {
  return attempt_->keys().table().ForEachBelow(directory, after, keys_max, visit);
}

CoordinatorMemory Coordinator::Memory() const {
  // The machines, before anybody comes.
  constexpr size_t kBaseBytes = size_t{16} << 10;
  constexpr size_t kWaitBytes = 320;
  return {.keys = attempt_->keys().memory(),
          .key_count = attempt_->keys().table().size(),
          .others = kBaseBytes + job_->memory() + attempt_->memory() + sessions_.memory() +
                    (attempt_->waits() + job_watch_.waits()) * kWaitBytes};
}

bool Coordinator::IsOver() const { return attempt_->failed() || attempt_->ended(); }

bool Coordinator::ShowsNewerRun() const {
  if (stopped_ || !attempt_->empty() || !job_->processes.HasNewerRun()) return false;
  return IsOver() || attempt_->state() == AttemptState::kWaiting;
}

// What processes of a newer run join begins the next attempt, once this one is over.
int64_t Coordinator::attempt() const {
  return job_->attempt + (ShowsNewerRun() && IsOver() ? 1 : 0);
}

CoordinatorView Coordinator::OfAttempt(Time now) const {
  CoordinatorView view{
      .job = job_->options.job, .size = job_->options.size, .attempt = job_->attempt};
  for (const auto& [version, error] : job_->changes.errors()) view.errors.push_back(error);
  attempt_->FillView(now, view);
  view.waits += job_watch_.waits();
  if (stopped_) view.state = AttemptState::kStopped;
  return view;
}

CoordinatorView Coordinator::View(Time now) const {
  CoordinatorView view = OfAttempt(now);
  std::optional<HostsHeard> heard;
  for (int32_t i = 0; i < view.size; ++i) {
    view.members.push_back(attempt_->views().Of(now, MemberIndex(i)));
    attempt_->views().NameSilentHost(now, view.members.back(), heard);
  }
  return view;
}

CoordinatorView Coordinator::Summary(Time now) const {
  CoordinatorView view = OfAttempt(now);
  if (!ShowsNewerRun()) return view;
  view.attempt = attempt();
  // Errors and members of an attempt that is over are former.
  const bool goes_on = view.preemption && view.preemption->state.phase != PreemptionPhase::kEnded;
  if (IsOver() && !goes_on) view.preemption.reset();
  view.state = AttemptState::kWaiting;
  view.started = now;
  view.somebody_came = false;
  view.barriers.clear();
  view.barriers_open = 0;
  return view;
}

MemberView Coordinator::ViewOf(Time now, MemberIndex member,
                               std::optional<HostsHeard>& heard) const {
  if (ShowsNewerRun()) return attempt_->views().OfProcess(now, member);
  MemberView view = attempt_->views().Of(now, member);
  attempt_->views().NameSilentHost(now, view, heard);
  return view;
}

MemberView Coordinator::WatchedViewOf(Time now, MemberIndex member) const {
  return attempt_->views().Of(now, member);
}

std::string Coordinator::NameOf(MemberIndex member) const { return job_->Name(member); }

bool Coordinator::AnyProcessRuns() const { return job_->processes.AnyRuns(); }

size_t Coordinator::CountConnected() const { return attempt_->views().CountConnected(); }

}  // namespace lockstep::coord

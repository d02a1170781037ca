#include "lockstep/coord/coordinator.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/attempt.h"
#include "lockstep/coord/job_record.h"

namespace lockstep::coord {
namespace {

// Spreads a seed and a counter over 64 bits (the finaliser of SplitMix64), so that the service
// incarnations of two servers or two attempts never look alike. Never 0: that means "none".
ServiceIncarnation Draw(uint64_t seed, int64_t attempt) {
  uint64_t x = seed + uint64_t{0x9e3779b97f4a7c15} * static_cast<uint64_t>(attempt);
  x = (x ^ (x >> 30)) * uint64_t{0xbf58476d1ce4e5b9};
  x = (x ^ (x >> 27)) * uint64_t{0x94d049bb133111eb};
  x ^= x >> 31;
  return ServiceIncarnation(x == 0 ? 1 : x);
}

ErrorPtr Stopped(const std::string& job) {
  return MakeError(
      Error{.code = absl::StatusCode::kInternal,
            .reason = Reason::kServiceStopped,
            .message = absl::StrCat("Coordination service of job '", job, "' has been shut down"),
            .from_service = false});
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options) : job_(std::make_unique<JobRecord>(options)) {
  LOCKSTEP_CHECK(options.size > 0 && options.size <= kMembersMax);
  job_->attempt = 1;
  attempt_ = std::make_unique<Attempt>(*job_, Draw(options.incarnation_seed, job_->attempt));
}

Coordinator::~Coordinator() = default;

const CoordinatorOptions& Coordinator::options() const { return job_->options; }
ServiceIncarnation Coordinator::service_incarnation() const { return attempt_->service(); }

Effects Coordinator::Handle(Time now, Event event) {
  Effects out;
  std::visit(
      [&](const auto& e) {
        if constexpr (requires { e.caller; }) {
          if (ErrorPtr refusal = CheckCaller(e.caller)) return out.Fail(e.caller.call, refusal);
          if constexpr (requires { attempt_->Handle(now, e, out); }) attempt_->Handle(now, e, out);
        } else if constexpr (requires { HandleOther(now, e, out); }) {
          HandleOther(now, e, out);
        }
      },
      event);
  attempt_->Settle(now, out);
  for (Notice& notice : out.notices) {
    notice.attempt = job_->attempt;
    if (notice.about.member) notice.member = job_->NameWithLife(*notice.about.member);
  }
  return out;
}

ErrorPtr Coordinator::CheckCaller(const Caller& caller) const {
  if (stopped_) return Stopped(job_->options.job);
  if (caller.service == attempt_->service()) return nullptr;
  return WrongService(caller.service);
}

ErrorPtr Coordinator::WrongService(ServiceIncarnation claimed) const {
  return MakeError(Error{
      .code = absl::StatusCode::kInternal,
      .reason = Reason::kWrongServiceIncarnation,
      .message =
          absl::StrCat("wrong service incarnation: expecting ", attempt_->service().value(),
                       " but got ", claimed.value(), "; job '", job_->options.job,
                       "' is at attempt ", job_->attempt, ", the caller is not registered in it"),
      .right_service = attempt_->service()});
}

void Coordinator::HandleOther(Time now, const RegisterMember& request, Effects& out) {
  if (stopped_) return out.Fail(request.call, Stopped(job_->options.job));
  if (job_->IsMember(request.member) && OpensNext(request)) {
    OpenNextAttempt(out);
  } else if (!attempt_->failed() && job_->IsNewLife(request.member, request.incarnation)) {
    // Refused when that fails the attempt, as a retry will open the next one.
    attempt_->GiveUpBroken(now, out);
  }
  attempt_->Handle(now, request, out);
}

bool Coordinator::OpensNext(const RegisterMember& request) const {
  if (job_->IsFormerLife(request.member, request.incarnation)) return false;
  if (attempt_->failed()) return !attempt_->Knew(request.member, request.incarnation);
  return attempt_->ended();
}

void Coordinator::OpenNextAttempt(Effects& out) {
  const std::unique_ptr<Attempt> old = std::move(attempt_);
  ++job_->attempt;
  attempt_ = std::make_unique<Attempt>(*job_, Draw(job_->options.incarnation_seed, job_->attempt));
  out.Tell(
      Severity::kInfo,
      absl::StrCat("job '", job_->options.job, "': attempt ", job_->attempt, " begins; attempt ",
                   job_->attempt - 1, old->failed() ? " failed" : " ended"),
      {NoticeKind::kAttemptBegan, {}});
  old->Close(WrongService(old->service()), out);
}

void Coordinator::HandleOther(Time now, const CallLeft& fact, Effects& out) {
  attempt_->Handle(now, fact, out);
}

void Coordinator::HandleOther(Time now, const DeadlineReached& fact, Effects& out) {
  if (!stopped_) attempt_->Handle(now, fact, out);
}

void Coordinator::HandleOther(Time, const ProcessStarted& fact, Effects& out) {
  if (!job_->IsMember(fact.member)) return;
  job_->processes[fact.member.value()] = {.host = fact.host, .pid = fact.pid, .running = true};
  out.Tell(Severity::kInfo,
           absl::StrCat("job '", job_->options.job, "': ", job_->Name(fact.member),
                        " started as pid ", fact.pid, " on ", fact.host),
           {NoticeKind::kProcessStarted, fact.member});
}

void Coordinator::HandleOther(Time now, const ProcessEnded& fact, Effects& out) {
  // A report about an older process of the member is late, and says nothing about the new one.
  if (!job_->IsMember(fact.member)) return;
  ProcessRecord& process = job_->processes[fact.member.value()];
  if (process.pid != fact.pid || !process.running) return;
  process.running = false;
  process.stopped = false;
  if (!stopped_) attempt_->Handle(now, fact, out);
}

void Coordinator::HandleOther(Time now, const ProcessStopped& fact, Effects& out) {
  SetStopped(now, fact.member, fact.pid, true, out);
}

void Coordinator::HandleOther(Time now, const ProcessContinued& fact, Effects& out) {
  SetStopped(now, fact.member, fact.pid, false, out);
}

void Coordinator::SetStopped(Time now, MemberIndex member, int64_t pid, bool stopped,
                             Effects& out) {
  if (!job_->IsMember(member)) return;
  ProcessRecord& process = job_->processes[member.value()];
  if (process.pid != pid || process.stopped == stopped) return;
  out.Tell(Severity::kWarning,
           stopped ? absl::StrCat("job '", job_->options.job, "': ", job_->Describe(member),
                                  " is stopped (SIGSTOP); it is lost only by its heartbeat timeout")
                   : absl::StrCat("job '", job_->options.job, "': ", job_->Describe(member),
                                  " continues after ", FormatSpan(now - process.stopped_at)),
           {stopped ? NoticeKind::kMemberSuspect : NoticeKind::kMemberRecovered, member});
  process.stopped = stopped;
  process.stopped_at = now;
}

void Coordinator::HandleOther(Time now, const Stop& fact, Effects& out) {
  if (stopped_) return;
  stopped_ = true;
  attempt_->Handle(now, fact, out);
}

absl::Status Coordinator::Apply(Time, const Record&) {
  return absl::UnimplementedError("records are not applied yet");
}

std::vector<TimedRecord> Coordinator::Snapshot() const { return {}; }

Time Coordinator::NextDeadline() const {
  return stopped_ ? Time::Infinite() : attempt_->NextDeadline();
}

CoordinatorView Coordinator::View(Time now) const {
  CoordinatorView view{.job = job_->options.job,
                       .size = job_->options.size,
                       .attempt = job_->attempt,
                       .errors = {job_->errors.begin(), job_->errors.end()}};
  attempt_->FillView(now, view);
  if (stopped_) view.state = AttemptState::kStopped;
  return view;
}

}  // namespace lockstep::coord

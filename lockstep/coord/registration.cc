#include "lockstep/coord/registration.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

// How long before its own deadline a caller is told: enough for the answer to arrive.
Time BeforeDeadline(Time now, Time deadline) {
  if (deadline.is_infinite()) return deadline;
  const absl::Duration left = std::max(deadline - now, absl::ZeroDuration());
  return deadline - std::min(absl::Seconds(1), left / 10);
}

}  // namespace

Registration::Registration(const JobRecord& job, Membership& membership)
    : job_(job),
      membership_(membership),
      everybody_(job.everybody),
      leaves_(job.options.size, Time::Infinite()) {}

bool Registration::Ask(Time now, const Admission& request, Effects& out) {
  LOCKSTEP_CHECK(!complete());
  if (!began_ && job_.attempt == 1) {  // of a later one, the end of the one before it tells
    out.Tell(Severity::kInfo,
             absl::StrCat("job '", job_.options.job,
                          "': attempt 1 begins: ", job_.Name(request.member), " is the first"),
             {LogKind::kAttemptBegan, {}});
  }
  // Before the life begins, which replaces it.
  const Incarnation before = membership_.Get(request.member).incarnation;
  // Before the gathering: texts that name the member show its newest life.
  membership_.BeginLife(now, request);
  if (!open()) {
    // Again after an idle time: the deadline of all counts from the first that waits.
    began_ = now;
    state_.emplace<Gathering>(everybody_, now, now + job_.options.register_timeout);
  }

  if (std::optional<CallId> older = gathering().Arrive(request.member, request.call)) {
    calls_.erase(*older);
    // The older call's deadline goes with it.
    leaving_.erase({leaves_[request.member.value()], request.member});
    const bool restarted = before != request.incarnation;
    out.Fail(*older, MakeError(Error{.code = restarted ? absl::StatusCode::kAlreadyExists
                                                       : absl::StatusCode::kCancelled,
                                     .reason = Reason::kSuperseded,
                                     .message = absl::StrCat("Aborted connect attempt of ",
                                                             job_.Name(request.member),
                                                             ": there is a request from a newer ",
                                                             restarted ? "incarnation" : "call"),
                                     .from_service = restarted}));
  }
  calls_[request.call] = request.member;
  const Time leave = BeforeDeadline(now, request.deadline);
  leaves_[request.member.value()] = leave;
  // A caller without a deadline waits as long as all do.
  if (!leave.is_infinite()) leaving_.emplace(leave, request.member);
  LOCKSTEP_DCHECK(calls_.size() == gathering().arrived());
  return gathering().complete();
}

std::vector<Gathering::Arrival> Registration::TakeAll(Effects& out) {
  LOCKSTEP_CHECK(open() && gathering().complete());
  // Copied, since the gathering ends with the state.
  std::vector<Gathering::Arrival> all = gathering().Waiting();
  LOCKSTEP_DCHECK(all.size() == everybody_->size() && calls_.size() == all.size());
  state_ = Complete();
  leaving_.clear();
  calls_.clear();
  // Before any member is connected, whose record a replay applies to a running attempt.
  out.records.push_back(record::AttemptRuns{});
  return all;
}

std::optional<MemberIndex> Registration::FreeMember(const RoleRecord& role) const {
  auto is_free = [this](MemberIndex index) {
    const Membership::Member& member = membership_.Get(index);
    const bool recoverable = job_.Recoverable(index);
    // A connected member is taken, unless it may come back and its link broke.
    if (member.state == MemberState::kConnected) {
      return recoverable && membership_.detector().Of(index).broke();
    }
    return !Waits(index) && (member.state != MemberState::kError || recoverable);
  };
  return membership_.vacancies().FirstFree(role, is_free);
}

void Registration::Drop(Time now, MemberIndex member, CallId call) {
  // The member is as before it asked, so that views do not show it as coming.
  membership_.GaveUpRegistering(now, member);
  gathering().Withdraw(member);
  leaving_.erase({leaves_[member.value()], member});
  const size_t erased = calls_.erase(call);
  LOCKSTEP_DCHECK(erased == 1 && calls_.size() == gathering().arrived());
}

bool Registration::MemberEnded(Time now, MemberIndex member, const ErrorPtr& error, Effects& out) {
  if (!open()) return false;
  const std::optional<CallId> call = gathering().Withdraw(member);
  if (!call) return false;
  Drop(now, member, *call);
  out.Fail(*call, error);
  // Without a waiter no time runs: the next registration begins anew.
  if (gathering().empty()) state_ = Idle();
  return true;
}

bool Registration::Forget(Time now, CallId call) {
  auto found = calls_.find(call);
  if (found == calls_.end()) return false;
  const MemberIndex member = found->second;
  Drop(now, member, call);
  if (gathering().empty()) state_ = Idle();
  return true;
}

Time Registration::NextDeadline() const {
  if (!open()) return Time::Infinite();
  const Time first = leaving_.empty() ? Time::Infinite() : leaving_.begin()->first;
  return std::min(first, gathering().deadline());
}

ErrorPtr Registration::ReachDeadline(Time now, Effects& out) {
  if (!open()) return nullptr;
  // The deadline of all first: it ends the attempt, and each caller's own is void.
  if (now >= gathering().deadline()) {
    ErrorPtr error = TimedOut(now);
    // The members stay as they are: the attempt fails with what they were told.
    FailAll(error, out);
    return error;
  }
  // All who are told at this instant hear of the same missing ones.
  ErrorPtr error;
  while (!leaving_.empty() && leaving_.begin()->first <= now) {
    if (!error) error = TimedOut(now);
    const MemberIndex member = leaving_.begin()->second;
    LOCKSTEP_DCHECK(leaves_[member.value()] == leaving_.begin()->first);
    const std::optional<CallId> call = gathering().Withdraw(member);
    LOCKSTEP_CHECK(call.has_value());
    Drop(now, member, *call);
    out.Fail(*call, error);
  }
  if (gathering().empty()) state_ = Idle();
  return nullptr;
}

ErrorPtr Registration::TimedOut(Time now) const {
  const std::vector<MemberIndex> awaited = gathering().Awaited();
  return MakeError(Error{
      .code = absl::StatusCode::kDeadlineExceeded,
      .reason = Reason::kRegistrationFailed,
      .message = absl::StrCat("Barrier timed out: registration of job '", job_.options.job,
                              "' after ", FormatSpan(now - gathering().opened()), " with ",
                              gathering().arrived(), "/", gathering().size(),
                              " members; the first was ", job_.NameWithLife(*gathering().first()),
                              "; missing ", DescribeMissing(now, job_, membership_, awaited),
                              "; look whether the missing were started and reach this address"),
      .barrier = BarrierRef{std::string(kBarrierId), 0},
      .missing = job_.ListNames(awaited)});
}

void Registration::FailAll(const ErrorPtr& error, Effects& out) {
  if (!open()) return;
  // In the order of members; the state goes afterwards, with the gathering in it.
  for (const Gathering::Arrival& arrival : gathering().Waiting()) out.Fail(arrival.call, error);
  state_ = Idle();
  leaving_.clear();
  calls_.clear();
}

void Registration::RestoreBegun(Time at) {
  // The first record tells; later ones are of the attempt as it went on.
  if (!began_) began_ = at;
}

void Registration::Apply(Time at, const record::AttemptRuns&) {
  RestoreBegun(at);
  state_ = Complete();
}

void Registration::Snapshot(std::vector<TimedRecord>& records) const {
  if (complete()) records.push_back({began_.value_or(Time()), record::AttemptRuns{}});
}

}  // namespace lockstep::coord

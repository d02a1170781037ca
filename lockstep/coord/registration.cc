#include "lockstep/coord/registration.h"

#include <algorithm>
#include <string>

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
  const Incarnation before = membership_.Get(request.member).incarnation;
  membership_.BeginLife(now, request);
  // The first who comes starts the clock, and a new one when all have gone again.
  if (!gathering_) gathering_.emplace(everybody_, now, now + job_.options.register_timeout);

  if (std::optional<CallId> older = gathering_->Arrive(request.member, request.call)) {
    calls_.erase(*older);
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
  if (!leave.is_infinite()) leaving_.emplace(leave, request.member);
  return gathering_->complete();
}

std::vector<Gathering::Arrival> Registration::TakeAll() {
  LOCKSTEP_CHECK(gathering_ && gathering_->complete());
  std::vector<Gathering::Arrival> all = gathering_->Waiting();
  gathering_.reset();
  leaving_.clear();
  calls_.clear();
  return all;
}

std::optional<Time> Registration::since() const {
  if (!gathering_) return std::nullopt;
  return gathering_->opened();
}

void Registration::Drop(Time now, MemberIndex member, CallId call) {
  // The member is as before it asked, so that views do not show it as coming.
  membership_.GaveUpRegistering(now, member);
  gathering_->Withdraw(member);
  leaving_.erase({leaves_[member.value()], member});
  calls_.erase(call);
}

bool Registration::MemberEnded(Time now, MemberIndex member, const ErrorPtr& error, Effects& out) {
  if (!gathering_) return false;
  const std::optional<CallId> call = gathering_->Withdraw(member);
  if (!call) return false;
  Drop(now, member, *call);
  out.Fail(*call, error);
  if (gathering_->empty()) gathering_.reset();
  return true;
}

bool Registration::Forget(Time now, CallId call) {
  auto found = calls_.find(call);
  if (found == calls_.end()) return false;
  const MemberIndex member = found->second;
  Drop(now, member, call);
  if (gathering_->empty()) gathering_.reset();
  return true;
}

Time Registration::NextDeadline() const {
  if (!gathering_) return Time::Infinite();
  const Time first = leaving_.empty() ? Time::Infinite() : leaving_.begin()->first;
  return std::min(first, gathering_->deadline());
}

ErrorPtr Registration::ReachDeadline(Time now, Effects& out) {
  if (!gathering_) return nullptr;
  if (now >= gathering_->deadline()) {
    const ErrorPtr error = TimedOut(now);
    // The members stay as they are: the attempt fails with what they were told.
    FailAll(error, out);
    return error;
  }
  // All who are told at this instant hear of the same missing ones.
  ErrorPtr error;
  while (!leaving_.empty() && leaving_.begin()->first <= now) {
    if (!error) error = TimedOut(now);
    const MemberIndex member = leaving_.begin()->second;
    const std::optional<CallId> call = gathering_->Withdraw(member);
    LOCKSTEP_CHECK(call.has_value());
    Drop(now, member, *call);
    out.Fail(*call, error);
  }
  if (gathering_->empty()) gathering_.reset();
  return nullptr;
}

ErrorPtr Registration::TimedOut(Time now) const {
  const std::vector<MemberIndex> awaited = gathering_->Awaited();
  return MakeError(Error{
      .code = absl::StatusCode::kDeadlineExceeded,
      .reason = Reason::kRegistrationFailed,
      .message = absl::StrCat("Barrier timed out: registration of job '", job_.options.job,
                              "' after ", FormatSpan(now - gathering_->opened()), " with ",
                              gathering_->arrived(), "/", gathering_->size(),
                              " members; the first was ", job_.NameWithLife(*gathering_->first()),
                              "; missing ", membership_.DescribeMissing(now, awaited),
                              "; look whether the missing were started and reach this address"),
      .barrier = BarrierRef{std::string(kBarrierId), 0},
      .missing = job_.ListNames(awaited)});
}

void Registration::FailAll(const ErrorPtr& error, Effects& out) {
  if (!gathering_) return;
  for (const Gathering::Arrival& arrival : gathering_->Waiting()) out.Fail(arrival.call, error);
  gathering_.reset();
  leaving_.clear();
  calls_.clear();
}

}  // namespace lockstep::coord

#include "lockstep/coord/shutdown_barrier.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/barrier_table.h"

namespace lockstep::coord {

ShutdownBarrier::ShutdownBarrier(const JobRecord& job, const Membership& membership,
                                 ServiceIncarnation service)
    : job_(job), membership_(membership), id_(absl::StrCat("Shutdown::", service.value())) {}

ErrorPtr ShutdownBarrier::verdict() const {
  const auto* ended = std::get_if<Ended>(&state_);
  return ended != nullptr ? ended->verdict : nullptr;
}

bool ShutdownBarrier::Includes(MemberIndex member) const {
  return open() && gathering().Includes(member);
}

ErrorPtr ShutdownBarrier::Open(Time now) {
  LOCKSTEP_CHECK(std::holds_alternative<Idle>(state_));
  std::vector<MemberIndex> members;
  for (int32_t i = 0; i < job_.options.size; ++i) {
    if (!job_.Recoverable(MemberIndex(i))) members.emplace_back(i);
  }
  const Participants participants = MakeParticipants(std::move(members));
  // Open even if a participant has failed: the caller then fails it, so that it ends once.
  state_.emplace<Gathering>(participants, now, now + job_.options.shutdown_timeout);
  if (membership_.failed() == 0) return nullptr;  // the usual case, without a look at each member
  for (MemberIndex participant : *participants) {
    const Membership::Member& member = membership_.Get(participant);
    if (member.state == MemberState::kError) return member.error;
  }
  return nullptr;
}

bool ShutdownBarrier::Arrive(MemberIndex member, CallId call, Effects& out) {
  LOCKSTEP_DCHECK(open());
  // A member waits with one call: its newest, since a retry replaces a call that broke.
  if (std::optional<CallId> older = gathering().Arrive(member, call)) {
    calls_.erase(*older);
    out.Fail(*older,
             MakeError(Error{.code = absl::StatusCode::kCancelled,
                             .reason = Reason::kSuperseded,
                             .message = absl::StrCat("there's a more recent barrier call of ",
                                                     job_.NameWithLife(member), " to shut down"),
                             .from_service = false}));
  }
  calls_[call] = member;
  LOCKSTEP_DCHECK(InvariantsHold());
  return gathering().complete();
}

bool ShutdownBarrier::Forget(CallId call) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return false;
  gathering().Withdraw(found->second);
  calls_.erase(found);
  // As if no member had begun to leave: the next one gets the whole time.
  if (gathering().empty()) state_ = Idle();
  LOCKSTEP_DCHECK(InvariantsHold());
  return true;
}

std::vector<Gathering::Arrival> ShutdownBarrier::Pass(Effects& out) {
  LOCKSTEP_CHECK(gathering().complete());
  std::vector<Gathering::Arrival> waiting = gathering().Waiting();
  LOCKSTEP_DCHECK(waiting.size() == calls_.size());  // (2)
  // Ended before the caller lets the members go, each of which would fail an open one.
  state_ = Ended();
  calls_.clear();
  out.records.push_back(record::ShutdownEnded{});
  return waiting;
}

void ShutdownBarrier::Fail(const ErrorPtr& inner, Effects& out) {
  LOCKSTEP_DCHECK(open() && inner != nullptr);  // (1)
  // Copied, since the gathering ends with the state.
  const std::vector<Gathering::Arrival> waiting = gathering().Waiting();
  const ErrorPtr verdict =
      MakeError(Error{.code = absl::StatusCode::kInternal,
                      .reason = Reason::kShutdownFailed,
                      .message = absl::StrCat("Shutdown barrier has failed with ", waiting.size(),
                                              "/", gathering().size(),
                                              " members. Barrier result: '", ToString(*inner), "'"),
                      .barrier = BarrierRef{id_, 0}});
  state_ = Ended{verdict};
  calls_.clear();
  out.records.push_back(record::ShutdownEnded{verdict});
  for (const Gathering::Arrival& arrival : waiting) out.Fail(arrival.call, verdict);
}

void ShutdownBarrier::Abandon(const ErrorPtr& error, Effects& out) {
  if (!open()) return;
  for (const Gathering::Arrival& arrival : gathering().Waiting()) out.Fail(arrival.call, error);
  // No verdict: the attempt is over by something else.
  state_ = Idle();
  calls_.clear();
}

ErrorPtr ShutdownBarrier::Overdue(Time now) const {
  if (!open() || now < gathering().deadline()) return nullptr;
  return MakeError(Error{
      .code = absl::StatusCode::kDeadlineExceeded,
      .reason = Reason::kShutdownFailed,
      .message = absl::StrCat("Barrier timed out: shutdown of job '", job_.options.job, "' after ",
                              FormatSpan(now - gathering().opened()), " with ",
                              gathering().arrived(), "/", gathering().size(), " members; missing ",
                              DescribeMissing(now, job_, membership_, gathering().Awaited()))});
}

Time ShutdownBarrier::NextDeadline() const {
  return open() ? gathering().deadline() : Time::Infinite();
}

void ShutdownBarrier::Snapshot(std::vector<TimedRecord>& records) const {
  if (ended()) records.push_back({Time(), record::ShutdownEnded{verdict()}});
}

std::optional<BarrierView> ShutdownBarrier::View() const {
  if (!open()) return std::nullopt;
  return ViewOf({id_, 0}, gathering());
}

bool ShutdownBarrier::InvariantsHold() const {
  LOCKSTEP_CHECK(calls_.size() == (open() ? gathering().arrived() : 0));
  for (const auto& [call, member] : calls_) LOCKSTEP_CHECK(gathering().Waits(member));
  return true;
}

}  // namespace lockstep::coord

// What goes wrong in an attempt, who is told, and how an attempt looks to people.
#include <string.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/coord/attempt.h"

namespace lockstep::coord {
namespace {

// Whether the member died or fell silent, in contrast to having failed.
bool IsLoss(Reason reason) {
  return reason == Reason::kHeartbeatTimeout || reason == Reason::kConnectionLost ||
         reason == Reason::kProcessEnded;
}

// Of heartbeat_timeout; stock clients send a heartbeat every half, so that by then one is overdue.
constexpr double kSilentIsSuspect = 0.6;

std::string DescribeEnd(const ProcessEnded& end) {
  if (end.signal == 0) {
    return absl::StrCat("its process exited with code ", end.exit_code, " without leaving the job");
  }
  const char* name = sigabbrev_np(end.signal);
  return absl::StrCat("its process was killed by ",
                      name ? absl::StrCat("SIG", name) : absl::StrCat("signal ", end.signal));
}

}  // namespace

void Attempt::Fail(Time now, std::vector<Casualty> casualties, Effects& out) {
  // Whose connection broke before is given up too, and first: what is told now is most likely a
  // consequence of that, and everybody hears of one cause only.
  std::map<MemberIndex, Casualty> by_member;
  if (!job_.options.recoverable) {
    for (Casualty& broken : Casualties(membership_.BrokenSince(now), now)) {
      by_member.emplace(broken.member, std::move(broken));
    }
  }
  for (Casualty& casualty : casualties) {
    const MemberIndex member = casualty.member;
    auto [known, is_new] = by_member.try_emplace(member, casualty);
    if (!is_new) known->second.error = std::move(casualty.error);  // somebody knows it better
  }
  std::vector<Casualty> all;
  for (auto& [member, casualty] : by_member) all.push_back(std::move(casualty));
  std::stable_sort(all.begin(), all.end(),
                   [](const Casualty& a, const Casualty& b) { return a.since < b.since; });

  for (const Casualty& casualty : all) membership_.Fail(now, casualty.member, casualty.error);
  for (const Casualty& casualty : all) {
    Keep(now, *casualty.error, failed() || &casualty != &all.front());
  }

  ErrorPtr told = all.front().error;
  if (all.size() > 1) {
    Error combined = *told;
    std::vector<MemberIndex> others;
    for (size_t i = 1; i < all.size(); ++i) others.push_back(all[i].member);
    absl::StrAppend(&combined.message, "; also lost: ", job_.NameSome(others));
    told = MakeError(std::move(combined));
  }
  out.Tell(job_.options.recoverable ? Severity::kWarning : Severity::kError,
           absl::StrCat("job '", job_.options.job, "': ", told->message),
           {IsLoss(all.front().error->reason) ? NoticeKind::kMemberLost : NoticeKind::kMemberFailed,
            all.front().member});
  Propagate(now, told, out);

  for (const Casualty& casualty : all) {
    barriers_.MemberGone(casualty.member, casualty.error, out);
    ForgetTraces(casualty.member, casualty.error, out);
    alive_.MemberChanged(casualty.member, out);
    if (shutdown_.gathering && shutdown_.gathering->Includes(casualty.member)) {
      EndShutdown(now, casualty.error, out);
    }
  }
}

void Attempt::GiveUpBroken(Time now, Effects& out) {
  if (job_.options.recoverable) return;
  const std::vector<Membership::Loss> losses = membership_.BrokenSince(now);
  if (!losses.empty()) Fail(now, Casualties(losses, now), out);
}

void Attempt::Propagate(Time now, const ErrorPtr& error, Effects& out) {
  if (job_.options.recoverable || root_cause_) return;
  root_cause_ = error;
  out.Tell(Severity::kError,
           absl::StrCat("job '", job_.options.job, "': attempt ", job_.attempt, " failed",
                        error->origin ? " by " + job_.NameWithLife(*error->origin) : "", ": ",
                        std::string(ReasonName(error->reason)), "; its members are told"),
           {NoticeKind::kAttemptFailed, error->origin});
  if (anyone_polls_) return FailPolls(error, out);
  SetAllToError(now, error, out);
}

void Attempt::SetAllToError(Time now, const ErrorPtr& because, Effects& out) {
  const ErrorPtr error = MakeError(
      Error{.code = absl::StatusCode::kInternal,
            .reason = Reason::kClusterFailed,
            .message = absl::StrCat("All tasks were set to error because of: ", because->message),
            .origin = because->origin});
  for (int32_t i = 0; i < membership_.size(); ++i) {
    const MemberIndex member(i);
    if (membership_.Get(member).state == MemberState::kError) continue;
    membership_.Fail(now, member, error);
    barriers_.MemberGone(member, error, out);
    ForgetTraces(member, error, out);
    alive_.MemberChanged(member, out);
  }
}

void Attempt::FailPolls(const ErrorPtr& error, Effects& out) {
  for (const auto& [member, call] : polls_) {
    parked_.erase(call);
    told_.insert(member);
    out.Fail(call, error);
  }
  polls_.clear();
}

std::vector<Attempt::Casualty> Attempt::Casualties(const std::vector<Membership::Loss>& losses,
                                                   Time now) const {
  std::vector<Casualty> casualties;
  for (const Membership::Loss& loss : losses) {
    casualties.push_back({loss.member, loss.since, LossError(loss, now)});
  }
  return casualties;
}

ErrorPtr Attempt::LossError(const Membership::Loss& loss, Time now) const {
  const std::string who = job_.Describe(loss.member);
  const std::string ago = FormatSpan(now - loss.since);
  if (loss.connection_broke) {
    return MakeError(Error{
        .code = absl::StatusCode::kUnavailable,
        .reason = Reason::kConnectionLost,
        .message = absl::StrCat(who, " was lost: its connection broke ", ago,
                                " ago and did not come back; its process has most likely died, so "
                                "look at the end of its log"),
        .origin = loss.member});
  }
  return MakeError(Error{.code = absl::StatusCode::kUnavailable,
                         .reason = Reason::kHeartbeatTimeout,
                         .message = absl::StrCat(
                             who, " was lost: heartbeat timeout, nothing was heard of it for ", ago,
                             " (unhealthy: stopped sending heartbeats); it hangs, its "
                             "host is down or the network is cut"),
                         .origin = loss.member});
}

void Attempt::Keep(Time now, const Error& error, bool consequence) {
  job_.KeepError({.at = now,
                  .code = error.code,
                  .reason = error.reason,
                  .message = error.message,
                  .origin = error.origin ? job_.NameWithLife(*error.origin) : "",
                  .consequence = consequence && !job_.options.recoverable,
                  .attempt = job_.attempt});
}

void Attempt::Handle(Time now, const ProcessEnded& fact, Effects& out) {
  const ErrorPtr error = MakeError(
      Error{.code = absl::StatusCode::kUnavailable,
            .reason = Reason::kProcessEnded,
            .message = absl::StrCat(job_.Describe(fact.member), " was lost: ", DescribeEnd(fact),
                                    "; look at the end of its log"),
            .origin = fact.member});
  // Before everybody is in, nobody but itself is concerned: the others go on waiting for it.
  if (registration_.MemberEnded(now, fact.member, error, out)) {
    return out.Tell(
        Severity::kWarning,
        absl::StrCat("job '", job_.options.job, "': while it registered, ", error->message),
        {NoticeKind::kMemberLost, fact.member});
  }
  if (membership_.Get(fact.member).state != MemberState::kConnected) return;
  Fail(now, {{fact.member, now, error}}, out);
}

void Attempt::Handle(Time now, const DeadlineReached&, Effects& out) {
  const std::vector<Membership::Loss> losses = membership_.Overdue(now);
  if (!losses.empty()) Fail(now, Casualties(losses, now), out);

  if (const ErrorPtr expired = registration_.ReachDeadline(now, out)) {
    Keep(now, *expired, failed());
    out.Tell(Severity::kError, absl::StrCat("job '", job_.options.job, "': ", expired->message));
    Error failed_to_start = *expired;
    failed_to_start.code = absl::StatusCode::kInternal;
    failed_to_start.message = absl::StrCat("Cluster registration failed: ", expired->message);
    const ErrorPtr error = MakeError(std::move(failed_to_start));
    // An attempt that never began is over for recoverable members, too: nobody is in it to come
    // back to, and only a failed one gives way to the next.
    Propagate(now, error, out);
    if (!root_cause_) root_cause_ = error;
    SetAllToError(now, error, out);
  }
  ReachShutdownDeadline(now, out);
  barriers_.ReachDeadline(now, out);
  agreements_.ReachDeadline(now, out);
  keys_.ReachDeadline(now, out);
}

void Attempt::ReachShutdownDeadline(Time now, Effects& out) {
  if (!shutdown_.gathering || now < shutdown_.gathering->deadline()) return;
  const Gathering& gathering = *shutdown_.gathering;
  const ErrorPtr late = MakeError(Error{
      .code = absl::StatusCode::kDeadlineExceeded,
      .reason = Reason::kShutdownFailed,
      .message = absl::StrCat("Barrier timed out: shutdown of job '", job_.options.job, "' after ",
                              FormatSpan(now - gathering.opened()), " with ", gathering.arrived(),
                              "/", gathering.size(), " members; missing ",
                              membership_.DescribeMissing(now, gathering.Awaited()))});
  EndShutdown(now, late, out);
}

void Attempt::Handle(Time, const Stop&, Effects& out) {
  const std::string text =
      absl::StrCat("the coordination service of job '", job_.options.job, "' is shutting down");
  barriers_.FailAll(MakeError(absl::StatusCode::kAborted, Reason::kServiceStopped,
                              absl::StrCat("Barrier failed because ", text)),
                    out);
  const ErrorPtr aborted = MakeError(absl::StatusCode::kAborted, Reason::kServiceStopped, text);
  agreements_.FailAll(aborted, out);
  registration_.FailAll(aborted, out);
  if (shutdown_.gathering) {
    for (const Gathering::Arrival& arrival : shutdown_.gathering->Waiting()) {
      parked_.erase(arrival.call);
      out.Fail(arrival.call, aborted);
    }
    shutdown_.gathering.reset();
  }
  watch_.Stop(out);
  const ErrorPtr cancelled = MakeError(Error{.code = absl::StatusCode::kCancelled,
                                             .reason = Reason::kServiceStopped,
                                             .message = text,
                                             .from_service = false});
  FailPolls(cancelled, out);
  keys_.FailAll(cancelled, out);
  alive_.FailAll(cancelled, out);
}

void Attempt::Close(const ErrorPtr& error, Effects& out) {
  FailPolls(error, out);
  registration_.FailAll(error, out);
  barriers_.FailAll(error, out);
  agreements_.FailAll(error, out);
  keys_.FailAll(error, out);
  alive_.FailAll(error, out);
  watch_.FailAll(error, out);
  if (!shutdown_.gathering) return;
  for (const Gathering::Arrival& arrival : shutdown_.gathering->Waiting()) {
    out.Fail(arrival.call, error);
  }
}

Time Attempt::NextDeadline() const {
  const Time shutdown = shutdown_.gathering ? shutdown_.gathering->deadline() : Time::Infinite();
  return std::min({membership_.NextDeadline(), registration_.NextDeadline(),
                   barriers_.NextDeadline(), agreements_.NextDeadline(), keys_.NextDeadline(),
                   watch_.NextDeadline(), shutdown});
}

void Attempt::FillView(Time now, CoordinatorView& view) const {
  view.service = service_;
  view.started = started_.value_or(now);
  view.state = failed()              ? AttemptState::kFailed
               : ended()             ? AttemptState::kEnded
               : shutdown_.gathering ? AttemptState::kLeaving
               : all_registered_     ? AttemptState::kRunning
                                     : AttemptState::kWaiting;
  for (int32_t i = 0; i < membership_.size(); ++i) {
    view.members.push_back(ViewOf(now, MemberIndex(i)));
  }
  const size_t rows_max = job_.options.view_rows_max;
  view.barriers = barriers_.View(rows_max);
  view.barriers_open = barriers_.open() + (shutdown_.gathering ? 1 : 0);
  if (shutdown_.gathering) {
    BarrierView leaving{.barrier = {shutdown_.id, 0},
                        .opened = shutdown_.gathering->opened(),
                        .deadline = shutdown_.gathering->deadline(),
                        .awaited = shutdown_.gathering->Awaited()};
    for (const Gathering::Arrival& arrival : shutdown_.gathering->Waiting()) {
      leaving.waiting.push_back(arrival.member);
    }
    view.barriers.push_back(std::move(leaving));
  }
  view.keys_awaited = keys_.awaited();
  for (const KeyWaits::Slot* slot : keys_.waiters(rows_max)) {
    const auto& [key, waiters] = *slot;
    KeyWaitView wait{.key = key, .waiters = waiters.size(), .since = waiters.begin()->second.since};
    for (const auto& [call, waiter] : waiters) {
      if (auto member = membership_.Find(waiter.incarnation)) wait.members.push_back(*member);
    }
    std::sort(wait.members.begin(), wait.members.end());
    wait.members.erase(std::unique(wait.members.begin(), wait.members.end()), wait.members.end());
    view.key_waits.push_back(std::move(wait));
  }
  view.keys = keys_.size();
  view.key_bytes = keys_.bytes();
  view.waits = barriers_.waits() + agreements_.waits() + keys_.waits() + alive_.waits() +
               watch_.waits() + registration_.waits() + parked_.size();
}

MemberView Attempt::ViewOf(Time now, MemberIndex index) const {
  const Membership::Member& member = membership_.Get(index);
  const ProcessRecord& process = job_.processes[index.value()];
  MemberView view{.member = index,
                  .name = job_.NameWithLife(index),
                  .since = member.since,
                  .peer = member.peer,
                  .host = process.host,
                  .pid = process.pid};
  if (member.ever_registered) view.last_heard = member.last_heard;
  auto become = [&view](MemberCondition condition, Time since, std::string why) {
    view.condition = condition;
    view.since = since;
    view.why = std::move(why);
  };
  const absl::Duration silent = now - member.last_heard;
  if (member.state == MemberState::kError && !member.ever_registered) {
    become(MemberCondition::kMissing, member.since, "it had not come when the attempt failed");
  } else if (member.state == MemberState::kError) {
    const Reason reason = member.error->reason;
    become(IsLoss(reason) ? MemberCondition::kLost : MemberCondition::kFailed, member.since,
           member.error->message);
  } else if (member.state == MemberState::kDisconnected) {
    if (registration_.Waits(index)) {
      view.condition = MemberCondition::kRegistering;
    } else if (member.grace_until) {
      view.condition = MemberCondition::kLeft;
    } else {
      const bool came = member.ever_registered;
      become(MemberCondition::kMissing, came ? member.since : started_.value_or(now),
             came ? "it went away while it registered" : "");
    }
  } else if (process.stopped) {
    become(MemberCondition::kSuspect, process.stopped_at, "its process is stopped (SIGSTOP)");
  } else if (member.connection_broke) {
    become(MemberCondition::kSuspect, *member.connection_broke, "its connection broke");
  } else if (told_.contains(index)) {
    become(MemberCondition::kFailed, member.since, "it was told of the failure, and ends by it");
  } else if (silent > kSilentIsSuspect * job_.options.heartbeat_timeout) {
    become(MemberCondition::kSuspect, member.last_heard,
           absl::StrCat("nothing was heard of it for ", FormatSpan(silent)));
  } else {
    view.condition = MemberCondition::kConnected;
  }
  return view;
}

}  // namespace lockstep::coord

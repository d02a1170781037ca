// What goes wrong in an attempt, and who is told.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/coord/attempt.h"

namespace lockstep::coord {
namespace {

std::string DescribeLoss(const ProcessEnded& end) {
  return absl::StrCat(DescribeEnd(end), end.signal == 0 ? " without leaving the job" : "");
}

}  // namespace

void Attempt::Fail(Time now, std::vector<Casualty> casualties, Effects& out) {
  const auto is_fatal = [this](const Casualty& each) { return !job_.Recoverable(each.member); };
  const bool fatal = std::any_of(casualties.begin(), casualties.end(), is_fatal);
  // Whose connection broke before is given up too, and first: what is told now is most likely a
  // consequence of that, and everybody hears of one cause only.
  std::map<MemberIndex, Casualty> by_member;
  if (fatal) {
    for (Casualty& broken : Casualties(membership_.BrokenSince(now), now)) {
      if (is_fatal(broken)) by_member.emplace(broken.member, std::move(broken));
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
  // Who can come back fails nobody, and is no cause.
  const Casualty& first = fatal ? *std::find_if(all.begin(), all.end(), is_fatal) : all.front();

  for (const Casualty& casualty : all) membership_.Fail(now, casualty.member, casualty.error);
  for (const Casualty& casualty : all) {
    const bool follows = is_fatal(casualty) && (failed() || &casualty != &first);
    Keep(now, *casualty.error, follows, out);
  }

  ErrorPtr told = first.error;
  if (all.size() > 1) {
    Error combined = *told;
    std::vector<MemberIndex> others;
    for (const Casualty& casualty : all) {
      if (&casualty != &first) others.push_back(casualty.member);
    }
    absl::StrAppend(&combined.message, "; also lost: ", job_.NameSome(others));
    told = MakeError(std::move(combined));
  }
  out.Tell(fatal ? Severity::kError : Severity::kWarning,
           absl::StrCat("job '", job_.options.job, "': ", told->message),
           {IsLoss(first.error->reason) ? NoticeKind::kMemberLost : NoticeKind::kMemberFailed,
            first.member});
  if (fatal) Propagate(now, told, out);

  for (const Casualty& casualty : all) {
    barriers_.MemberGone(casualty.member, casualty.error, out);
    ForgetTraces(now, casualty.member, casualty.error, out);
    alive_.MemberChanged(casualty.member, out);
    if (shutdown_.Includes(casualty.member)) FailShutdown(now, casualty.error, out);
  }
}

void Attempt::GiveUpBroken(Time now, std::optional<MemberIndex> newcomer, Effects& out) {
  std::vector<Membership::Loss> losses = membership_.BrokenSince(now);
  if (newcomer) {
    // Who has not come back since a restart, and comes in a new life, has died.
    const Membership::Member& member = membership_.Get(*newcomer);
    if (member.link == Membership::Link::kRestarted) {
      losses.push_back({*newcomer, member.link_since, member.link});
    }
  }
  std::erase_if(losses,
                [this](const Membership::Loss& loss) { return job_.Recoverable(loss.member); });
  if (!losses.empty()) Fail(now, Casualties(losses, now), out);
}

void Attempt::Propagate(Time now, const ErrorPtr& error, Effects& out) {
  if (job_.options.recoverable || root_cause_) return;
  SetRootCause(error, out);
  out.Tell(Severity::kError,
           absl::StrCat("job '", job_.options.job, "': attempt ", job_.attempt, " failed",
                        error->origin ? " by " + job_.NameWithLife(*error->origin) : "", ": ",
                        std::string(ReasonName(error->reason)), "; its members are told"),
           {NoticeKind::kAttemptFailed, error->origin});
  if (polls_.used()) return polls_.FailAll(error, out);
  SetAllToError(now, error, out);
}

void Attempt::SetRootCause(const ErrorPtr& error, Effects& out) {
  root_cause_ = error;
  out.records.push_back(record::AttemptFailed{error});
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
    ForgetTraces(now, member, error, out);
    alive_.MemberChanged(member, out);
  }
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
  if (loss.link == Membership::Link::kRestarted) {
    return MakeError(Error{
        .code = absl::StatusCode::kUnavailable,
        .reason = Reason::kConnectionLost,
        .message = absl::StrCat(who, " was lost: the server was restarted ", ago,
                                " ago, and it did not come back; its process has most likely died, "
                                "so look at the end of its log"),
        .origin = loss.member});
  }
  if (loss.link == Membership::Link::kBroken) {
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

void Attempt::Keep(Time now, const Error& error, bool consequence, Effects& out) {
  const ErrorView view{.at = now,
                       .code = error.code,
                       .reason = error.reason,
                       .message = error.message,
                       .origin = error.origin ? job_.NameWithLife(*error.origin) : "",
                       .consequence = consequence && !job_.options.recoverable,
                       .attempt = job_.attempt};
  job_.KeepError(view);
  out.records.push_back(record::ErrorKept{.code = view.code,
                                          .reason = view.reason,
                                          .message = view.message,
                                          .origin = view.origin,
                                          .consequence = view.consequence,
                                          .attempt = view.attempt});
}

void Attempt::Handle(Time now, const ProcessEnded& fact, Effects& out) {
  const ErrorPtr error = MakeError(
      Error{.code = absl::StatusCode::kUnavailable,
            .reason = Reason::kProcessEnded,
            .message = absl::StrCat(job_.Describe(fact.member), " was lost: ", DescribeLoss(fact),
                                    "; look at the end of its log"),
            .origin = fact.member});
  // Before everybody is in, nobody but itself is concerned: the others go on waiting for it.
  if (registration_.MemberEnded(now, fact.member, error, out)) {
    return out.Tell(
        Severity::kWarning,
        absl::StrCat("job '", job_.options.job, "': while it registered, ", error->message),
        {NoticeKind::kMemberLost, fact.member});
  }
  const Membership::Member& member = membership_.Get(fact.member);
  if (member.state == MemberState::kConnected) return Fail(now, {{fact.member, now, error}}, out);
  // Its connection was faster than its launcher, which alone knows how it ended.
  const bool by_connection = member.error && member.error->reason == Reason::kConnectionLost &&
                             member.error->origin == fact.member;
  if (!by_connection) return;
  out.Tell(Severity::kWarning,
           absl::StrCat("job '", job_.options.job, "': ", job_.Describe(fact.member),
                        ", which was lost by its connection: ", DescribeLoss(fact)),
           {NoticeKind::kProcessEnded, fact.member});
}

// The member is not lost yet: it may clean up, and until it ends the others wait for it.
void Attempt::Handle(Time now, const ProcessEnding& fact, Effects& out) {
  const Error error{.code = absl::StatusCode::kUnknown,
                    .reason = Reason::kReportedError,
                    .message = absl::StrCat(job_.Describe(fact.member), " raised ", fact.error),
                    .origin = fact.member};
  // Whoever loses a peer raises, too.
  const bool another_failed = job_.processes.AnyWritten(
      [](const ProcessRecord& process) { return process.failed && !process.former; });
  Keep(now, error, failed() || another_failed, out);
  out.Tell(Severity::kError, absl::StrCat("job '", job_.options.job, "': ", error.message),
           {NoticeKind::kMemberFailed, fact.member});
}

void Attempt::Handle(Time now, const DeadlineReached&, Effects& out) {
  const std::vector<Membership::Loss> losses = membership_.Overdue(now);
  if (!losses.empty()) Fail(now, Casualties(losses, now), out);

  if (const ErrorPtr expired = registration_.ReachDeadline(now, out)) {
    Keep(now, *expired, failed(), out);
    out.Tell(Severity::kError, absl::StrCat("job '", job_.options.job, "': ", expired->message));
    Error failed_to_start = *expired;
    failed_to_start.code = absl::StatusCode::kInternal;
    failed_to_start.message = absl::StrCat("Cluster registration failed: ", expired->message);
    const ErrorPtr error = MakeError(std::move(failed_to_start));
    // An attempt that never began is over for recoverable members, too: nobody is in it to come
    // back to, and only a failed one gives way to the next.
    Propagate(now, error, out);
    if (!root_cause_) SetRootCause(error, out);
    SetAllToError(now, error, out);
  }
  if (const ErrorPtr late = shutdown_.Overdue(now)) FailShutdown(now, late, out);
  barriers_.ReachDeadline(now, out);
  agreements_.ReachDeadline(now, out);
  preemption_.ReachDeadline(now, out);
  keys_.ReachDeadline(now, out);
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
  shutdown_.Abandon(aborted, out);
  watch_.Stop(out);
  const ErrorPtr cancelled = MakeError(Error{.code = absl::StatusCode::kCancelled,
                                             .reason = Reason::kServiceStopped,
                                             .message = text,
                                             .from_service = false});
  polls_.FailAll(cancelled, out);
  keys_.FailAll(cancelled, out);
  alive_.FailAll(cancelled, out);
  preemption_.FailAll(cancelled, out);
}

void Attempt::Close(const ErrorPtr& error, int64_t next_revision, Effects& out) {
  preemption_.FailAll(error, out);
  polls_.FailAll(error, out);
  registration_.FailAll(error, out);
  barriers_.FailAll(error, out);
  agreements_.FailAll(error, out);
  keys_.Close(error, next_revision, out);
  alive_.FailAll(error, out);
  watch_.FailAll(error, out);
  shutdown_.Abandon(error, out);
}

Time Attempt::NextDeadline() const {
  return std::min({membership_.NextDeadline(), registration_.NextDeadline(),
                   barriers_.NextDeadline(), agreements_.NextDeadline(), keys_.NextDeadline(),
                   preemption_.NextDeadline(), watch_.NextDeadline(), shutdown_.NextDeadline()});
}

}  // namespace lockstep::coord

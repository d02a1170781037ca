#include "lockstep/coord/member_losses.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {

ErrorPtr LossError(const JobRecord& job, const FailureDetector::Loss& loss, Time now) {
  LOCKSTEP_DCHECK(loss.since <= now);
  const std::string ago = FormatSpan(now - loss.since);
  const std::string when = now > loss.since ? absl::StrCat(" ", ago, " ago") : "";
  // The kind of loss decides what to look at, so each has a text of its own.
  Reason reason = Reason::kConnectionLost;
  std::string how;
  switch (loss.link) {
    case FailureDetector::Link::kRestarted:
      how = absl::StrCat("the server was restarted ", ago,
                         " ago, and it did not come back; its process has most likely died, so "
                         "look at the end of its log");
      break;
    case FailureDetector::Link::kBroken:
      how = absl::StrCat("its connection broke", when,
                         " and did not come back; its process has most likely died, so look at "
                         "the end of its log");
      break;
    case FailureDetector::Link::kAgentEnded:
      reason = Reason::kAgentEnded;
      how = absl::StrCat("the agent of its host disconnected", when,
                         " and did not come back; it has most likely ended, and the connections "
                         "of all its processes with it, so look at the end of its log");
      break;
    case FailureDetector::Link::kUp:
    case FailureDetector::Link::kSilent:
      reason = Reason::kHeartbeatTimeout;
      how = absl::StrCat("heartbeat timeout, nothing was heard of it for ", ago,
                         " (unhealthy: stopped sending heartbeats); it hangs, its host is down or "
                         "the network is cut");
      break;
  }
  return MakeError(Error{.code = absl::StatusCode::kUnavailable,
                         .reason = reason,
                         .message = absl::StrCat(job.Describe(loss.member), " was lost: ", how),
                         .origin = loss.member});
}

std::vector<MemberLoss> MemberLossesOf(const JobRecord& job,
                                       const std::vector<FailureDetector::Loss>& losses, Time now) {
  std::vector<MemberLoss> member_losses;
  member_losses.reserve(losses.size());
  for (const FailureDetector::Loss& loss : losses) {
    member_losses.push_back({loss.member, loss.since, LossError(job, loss, now)});
  }
  return member_losses;
}

ErrorPtr HostLostError(const JobRecord& job, const HostLost& fact, MemberIndex member,
                       size_t members) {
  return MakeError(
      Error{.code = absl::StatusCode::kUnavailable,
            .reason = Reason::kHostLost,
            .message = absl::StrCat(job.Describe(member), " was lost: host ", fact.host,
                                    " has not been heard for ", FormatSpan(fact.unheard), " (",
                                    members, members == 1 ? " process)" : " processes)",
                                    "; it is down, or cut off from the network"),
            .origin = member});
}

std::string DescribeLoss(const ProcessEnded& end) {
  return absl::StrCat(DescribeEnd(end), end.signal == 0 ? " without leaving the job" : "");
}

ErrorPtr ProcessEndedError(const JobRecord& job, const ProcessEnded& end) {
  return MakeError(Error{.code = absl::StatusCode::kUnavailable,
                         .reason = Reason::kProcessEnded,
                         .message = absl::StrCat(job.Describe(end.member), " was lost: ",
                                                 DescribeLoss(end), "; look at the end of its log"),
                         .origin = end.member});
}

void KeepError(Time now, const Error& error, bool consequence, JobRecord& job, Effects& out) {
  const ErrorView view{.at = now,
                       .code = error.code,
                       .reason = error.reason,
                       .message = error.message,
                       .origin = error.origin ? job.NameWithLife(*error.origin) : "",
                       .consequence = consequence && !job.options.recoverable,
                       .attempt = job.attempt};
  // Kept and recorded alike, so that a restarted server shows the same history.
  job.changes.KeepError(view);
  out.records.push_back(record::ErrorKept{.code = view.code,
                                          .reason = view.reason,
                                          .message = view.message,
                                          .origin = view.origin,
                                          .consequence = view.consequence,
                                          .attempt = view.attempt});
}

MemberLosses::MemberLosses(const JobRecord& job, const Membership& membership, Time now,
                           std::vector<MemberLoss> member_losses)
    : job_(job) {
  LOCKSTEP_CHECK(!member_losses.empty());
  const auto is_fatal = [this](const MemberLoss& each) { return IsFatal(each); };
  const bool fatal = std::any_of(member_losses.begin(), member_losses.end(), is_fatal);
  // By member, so that ties in time stay in the order of indices.
  std::map<MemberIndex, MemberLoss> by_member;
  // Only where the attempt fails anyway: a broken link alone may still come back.
  if (fatal) {
    for (MemberLoss& broken : MemberLossesOf(job, membership.detector().BrokenSince(now), now)) {
      if (is_fatal(broken)) by_member.emplace(broken.member, std::move(broken));
    }
  }
  for (MemberLoss& loss : member_losses) {
    // The time of the break stays: trouble that began earlier is more likely the cause.
    auto [known, is_new] = by_member.try_emplace(loss.member, loss);
    if (!is_new) known->second.error = std::move(loss.error);  // the caller knows it better
  }
  for (auto& [member, loss] : by_member) all_.push_back(std::move(loss));
  std::stable_sort(all_.begin(), all_.end(),
                   [](const MemberLoss& a, const MemberLoss& b) { return a.since < b.since; });
  // A recoverable member fails no other, so it is no cause beside a fatal one.
  if (fatal) cause_ = std::find_if(all_.begin(), all_.end(), is_fatal) - all_.begin();
  LOCKSTEP_DCHECK(cause_ < all_.size() && this->fatal() == fatal);
}

ErrorPtr MemberLosses::Combined() const {
  if (all_.size() == 1) return cause().error;
  Error combined = *cause().error;
  std::vector<MemberIndex> others;
  for (const MemberLoss& loss : all_) {
    if (&loss != &cause()) others.push_back(loss.member);
  }
  absl::StrAppend(&combined.message, "; also lost: ", job_.NameSome(others));
  return MakeError(std::move(combined));
}

}  // namespace lockstep::coord

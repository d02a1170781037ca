#include "lockstep/coord/job_watch.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {

void JobWatch::Watch(Time now, const WatchJob& request, const Attempt& attempt, Effects& out) {
  const CallId call = request.caller.call;
  const size_t waits = attempt.waits() + parked_.size();
  if (waits >= job_.options.waits_max) {
    return out.Fail(
        call, MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                        absl::StrCat(waits, " calls of job '", job_.options.job,
                                     "' wait, which is the limit waits_max; nothing was changed")));
  }
  // Also where it would be answered at once: a change takes memory as well.
  if (job_.no_room.for_small) return out.Fail(call, job_.no_room.for_small);
  // A version ahead of the job's counts as unknown: it is another server's.
  if (request.after != job_.changes.version()) {
    return out.Succeed(call, ChangeSince(now, request.after, attempt));
  }
  // Parked watchers all know a version up to this one, so the oldest stays.
  if (parked_.empty()) oldest_parked_ = request.after;
  LOCKSTEP_DCHECK(oldest_parked_ <= request.after);
  parked_.emplace(call, request.after);
}

void JobWatch::Flush(Time now, const Attempt& attempt, Effects& out) {
  // Without a look at each: this comes after every event.
  if (parked_.empty() || oldest_parked_ == job_.changes.version()) return;
  // What changes meanwhile is told together.
  if (not_before_ && now < *not_before_) return;
  // One for each version that is waited for; most watchers have the same.
  std::map<int64_t, JobChanged> changes;
  for (const auto& [call, after] : parked_) {
    // This watcher was parked in this very version.
    if (after == job_.changes.version()) continue;
    auto [change, is_new] = changes.try_emplace(after);
    if (is_new) change->second = ChangeSince(now, after, attempt);
    out.Succeed(call, change->second);
  }
  std::erase_if(parked_,
                [this](const auto& parked) { return parked.second != job_.changes.version(); });
  // Those that are left have seen this version.
  oldest_parked_ = job_.changes.version();
  // From the answers on: after a rest the next change is told at once.
  not_before_ = now + job_.options.watch_interval;
}

Time JobWatch::NextDeadline() const {
  if (parked_.empty() || oldest_parked_ == job_.changes.version()) return Time::Infinite();
  // Without an answer so far nothing has to be waited for.
  return not_before_.value_or(Time());
}

JobChanged JobWatch::ChangeSince(Time now, int64_t after, const Attempt& attempt) const {
  auto change = std::make_shared<JobChange>();
  change->version = job_.changes.version();
  // A version ahead of ours is of another life of the service.
  change->snapshot = !job_.changes.Knows(after);
  change->attempt = job_.attempt;
  change->state = attempt.state();
  const std::map<int64_t, ErrorView>& errors = job_.changes.errors();
  const auto tell = [&](MemberIndex member, bool many) {
    many ? change->later.push_back(member)
         : change->members.push_back(attempt.views().Of(now, member));
  };
  if (change->snapshot) {
    // For all members alike, so that a change lists them in one way.
    const bool many = static_cast<size_t>(job_.options.size) > kMembersToldMax;
    for (int32_t i = 0; i < job_.options.size; ++i) tell(MemberIndex(i), many);
    for (const auto& [version, error] : errors) change->errors.push_back(error);
    return {std::move(change)};
  }
  const std::vector<MemberIndex> changed = job_.changes.MembersSince(after);
  for (const MemberIndex member : changed) tell(member, changed.size() > kMembersToldMax);
  for (auto it = errors.upper_bound(after); it != errors.end(); ++it) {
    change->errors.push_back(it->second);
  }
  LOCKSTEP_DCHECK(change->members.empty() || change->later.empty());
  return {std::move(change)};
}

void JobWatch::FailAll(const ErrorPtr& error, Effects& out) {
  for (const auto& [call, after] : parked_) out.Fail(call, error);
  parked_.clear();
}

}  // namespace lockstep::coord

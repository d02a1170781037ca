#include "lockstep/coord/job_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep::coord {

void JobWatch::Watch(Time now, CallId call, int64_t after, const Attempt& attempt, Effects& out) {
  if (after != job_.version) return out.Succeed(call, ChangeSince(now, after, attempt));
  if (parked_.empty()) oldest_parked_ = after;
  parked_.emplace(call, after);
}

void JobWatch::Flush(Time now, const Attempt& attempt, Effects& out) {
  if (parked_.empty() || oldest_parked_ == job_.version) return;
  // What changes meanwhile is told together.
  if (not_before_ && now < *not_before_) return;
  // One for each version that is waited for; most watchers have the same.
  std::map<int64_t, JobChanged> changes;
  for (const auto& [call, after] : parked_) {
    if (after == job_.version) continue;
    auto [change, is_new] = changes.try_emplace(after);
    if (is_new) change->second = ChangeSince(now, after, attempt);
    out.Succeed(call, change->second);
  }
  std::erase_if(parked_, [this](const auto& parked) { return parked.second != job_.version; });
  // Those that are left have seen this version.
  oldest_parked_ = job_.version;
  not_before_ = now + job_.options.watch_interval;
}

Time JobWatch::NextDeadline() const {
  if (parked_.empty() || oldest_parked_ == job_.version) return Time::Infinite();
  return not_before_.value_or(Time());
}

JobChanged JobWatch::ChangeSince(Time now, int64_t after, const Attempt& attempt) const {
  auto change = std::make_shared<JobChange>();
  change->version = job_.version;
  // A version ahead of ours is of another life of the service.
  change->snapshot = after < job_.first_version || after > job_.version;
  change->attempt = job_.attempt;
  change->state = attempt.state();
  const auto tell = [&](MemberIndex member, bool many) {
    many ? change->later.push_back(member)
         : change->members.push_back(attempt.views().Of(now, member));
  };
  if (change->snapshot) {
    const bool many = static_cast<size_t>(job_.options.size) > kMembersToldMax;
    for (int32_t i = 0; i < job_.options.size; ++i) tell(MemberIndex(i), many);
    for (const auto& [version, error] : job_.errors) change->errors.push_back(error);
    return {std::move(change)};
  }
  const std::vector<MemberIndex> changed = ChangedSince(after);
  for (const MemberIndex member : changed) tell(member, changed.size() > kMembersToldMax);
  for (auto it = job_.errors.upper_bound(after); it != job_.errors.end(); ++it) {
    change->errors.push_back(it->second);
  }
  return {std::move(change)};
}

std::vector<MemberIndex> JobWatch::ChangedSince(int64_t after) const {
  std::vector<MemberIndex> changed;
  for (auto it = job_.changed_members.upper_bound(after); it != job_.changed_members.end(); ++it) {
    changed.push_back(it->second);
  }
  if (changed.size() <= kMembersToldMax) {
    std::sort(changed.begin(), changed.end());
    return changed;
  }
  // To sort tens of thousands takes milliseconds; to look each up does not.
  std::vector<bool> is_new(static_cast<size_t>(job_.options.size));
  for (const MemberIndex member : changed) is_new[static_cast<size_t>(member.value())] = true;
  changed.clear();
  for (int32_t i = 0; i < job_.options.size; ++i) {
    if (is_new[static_cast<size_t>(i)]) changed.emplace_back(i);
  }
  return changed;
}

void JobWatch::FailAll(const ErrorPtr& error, Effects& out) {
  for (const auto& [call, after] : parked_) out.Fail(call, error);
  parked_.clear();
}

}  // namespace lockstep::coord

#include "lockstep/coord/member_watch.h"

#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::coord {

void MemberWatch::Watch(CallId call, std::optional<int64_t> version, Effects& out) {
  if (version != membership_.version()) return out.Succeed(call, Snapshot());
  // Parked watchers all know a version up to this one, so the oldest stays.
  if (parked_.empty()) oldest_parked_ = *version;
  LOCKSTEP_DCHECK(oldest_parked_ <= *version);
  parked_.emplace(call, *version);
}

void MemberWatch::Flush(Time now, Effects& out) {
  // Whether anybody waits for this version, without looking at each.
  if (parked_.empty() || oldest_parked_ == membership_.version()) return;
  // What changes until then is told together.
  if (not_before_ && now < *not_before_) return;
  const MembersWatched snapshot = Snapshot();
  for (const auto& [call, version] : parked_) {
    if (version != snapshot.version) out.Succeed(call, snapshot);
  }
  // Watchers that were parked in this very version stay.
  std::erase_if(parked_, [&](const auto& parked) { return parked.second != snapshot.version; });
  oldest_parked_ = snapshot.version;
  not_before_ = now + interval_;
}

Time MemberWatch::NextDeadline() const {
  if (parked_.empty() || oldest_parked_ == membership_.version()) return Time::Infinite();
  // Without an answer so far nothing has to be waited for.
  return not_before_.value_or(Time());
}

MembersWatched MemberWatch::Snapshot() {
  LOCKSTEP_DCHECK(snapshot_version_ <= membership_.version());
  // Shared by all who ask for this version.
  if (snapshot_version_ != membership_.version()) {
    auto members = std::make_shared<std::vector<MemberStatus>>();
    members->reserve(membership_.size());
    for (int32_t i = 0; i < membership_.size(); ++i) {
      const Membership::Member& m = membership_.Get(MemberIndex(i));
      members->push_back({MemberIndex(i), m.incarnation, m.state, m.error});
    }
    snapshot_ = std::move(members);
    snapshot_version_ = membership_.version();
  }
  return {snapshot_, snapshot_version_};
}

void MemberWatch::Stop(Effects& out) {
  const auto nobody = std::make_shared<const std::vector<MemberStatus>>();
  for (const auto& [call, version] : parked_) out.Succeed(call, MembersWatched{nobody, -1});
  parked_.clear();
}

void MemberWatch::FailAll(const ErrorPtr& error, Effects& out) {
  for (const auto& [call, version] : parked_) out.Fail(call, error);
  parked_.clear();
}

}  // namespace lockstep::coord

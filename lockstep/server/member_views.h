// What a job's members look like, for an answer that lists many of them.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/coordinator.h"
#include "lockstep/coord/view.h"

namespace lockstep::server {

// An answer of many members takes many turns, and listing which hosts were heard of for each member
// would be too dear: a list is good for the members that are looked at within a second.
//
// Threads: loop-confined. The coordinator outlives it.
class MemberViews {
 public:
  explicit MemberViews(const coord::Coordinator& coordinator) : coordinator_(coordinator) {}

  coord::MemberView At(Time now, MemberIndex member) {
    constexpr absl::Duration kKept = absl::Seconds(1);
    if (now - hosts_heard_at_ > kKept) hosts_heard_.reset();
    if (!hosts_heard_) hosts_heard_at_ = now;
    return coordinator_.ViewOf(now, member, hosts_heard_);
  }

 private:
  const coord::Coordinator& coordinator_;
  std::optional<coord::HostsHeard> hosts_heard_;
  Time hosts_heard_at_;
};

}  // namespace lockstep::server

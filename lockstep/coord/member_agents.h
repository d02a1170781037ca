// Which members call through the agent of their host, and through which. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lockstep/base/ids.h"

namespace lockstep::coord {

// What each member's last registration, heartbeat or poll came through. Not recorded: whoever comes
// back after a restart says it again.
//
// Threads: thread-compatible. Bounds: one entry a member.
class MemberAgents {
 public:
  // `agent`: its session; none: the member calls by itself.
  void Note(MemberIndex member, SessionId agent) {
    if (agent.none() && agents_.empty()) return;
    SessionId& known = agents_[member];
    if (known == agent) return;
    Forget(member, known);
    known = agent;
    if (agent.none()) {
      agents_.erase(member);
    } else {
      members_[agent].insert(member);
    }
  }

  // In their order.
  std::vector<MemberIndex> MembersOf(SessionId agent) const {
    const auto found = members_.find(agent);
    if (found == members_.end()) return {};
    return {found->second.begin(), found->second.end()};
  }
  size_t CountMembersOf(SessionId agent) const {
    const auto found = members_.find(agent);
    return found == members_.end() ? 0 : found->second.size();
  }

 private:
  void Forget(MemberIndex member, SessionId agent) {
    const auto found = members_.find(agent);
    if (found == members_.end()) return;
    found->second.erase(member);
    if (found->second.empty()) members_.erase(found);
  }

  absl::flat_hash_map<MemberIndex, SessionId> agents_;
  std::map<SessionId, std::set<MemberIndex>> members_;
};

}  // namespace lockstep::coord

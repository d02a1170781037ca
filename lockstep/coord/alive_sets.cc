#include "lockstep/coord/alive_sets.h"

#include <algorithm>
#include <memory>

#include "lockstep/base/check.h"
#include "lockstep/coord/gathering.h"

namespace lockstep::coord {

void AliveSets::Ask(const GetAliveMembers& request, Effects& out) {
  auto [set, is_new] = pending_.try_emplace(*MakeParticipants(request.members));
  Pending& pending = set->second;
  LOCKSTEP_DCHECK(std::binary_search(set->first.begin(), set->first.end(), request.member));
  if (is_new) {
    for (MemberIndex member : set->first) {
      // Strangers count as not alive.
      if (member.value() < 0 || member.value() >= membership_.size()) continue;
      if (membership_.Get(member).state == MemberState::kConnected) pending.awaited.insert(member);
    }
  }
  // A member may ask twice: each of its calls is answered.
  pending.callers.emplace(request.member, request.caller.call);
  pending.awaited.erase(request.member);
  calls_[request.caller.call] = {set, request.member};
  // Last: it destroys the set.
  if (pending.awaited.empty()) Answer(set, out);
}

void AliveSets::MemberChanged(MemberIndex member, Effects& out) {
  const bool connected = membership_.Get(member).state == MemberState::kConnected;
  for (auto set = pending_.begin(); set != pending_.end();) {
    Pending& pending = set->second;
    // A set that does not list the member is not concerned.
    if (!std::binary_search(set->first.begin(), set->first.end(), member)) {
      ++set;
      continue;
    }
    // One that is lost is not awaited; its calls stay, for their callers may still be there.
    if (!connected) {
      pending.awaited.erase(member);
    } else if (!pending.callers.contains(member)) {
      pending.awaited.insert(member);
    }
    set = pending.awaited.empty() ? Answer(set, out) : std::next(set);
  }
}

void AliveSets::MemberRestarted(MemberIndex member, const ErrorPtr& error, Effects& out) {
  for (auto set = pending_.begin(); set != pending_.end();) {
    auto& callers = set->second.callers;
    const auto [begin, end] = callers.equal_range(member);
    for (auto caller = begin; caller != end; ++caller) {
      calls_.erase(caller->second);
      out.Fail(caller->second, error);
    }
    // A set in which nobody asks any more is dropped.
    callers.erase(begin, end);
    set = callers.empty() ? pending_.erase(set) : std::next(set);
  }
  // After the former calls have gone: `MemberChanged` awaits a member only if it does not wait.
  MemberChanged(member, out);
}

AliveSets::PendingSets::iterator AliveSets::Answer(PendingSets::iterator set, Effects& out) {
  LOCKSTEP_DCHECK(set->second.awaited.empty());
  auto alive = std::make_shared<std::vector<AliveMember>>();
  for (MemberIndex member : set->first) {
    if (member.value() < 0 || member.value() >= membership_.size()) continue;
    const Membership::Member& m = membership_.Get(member);
    // As of now, not as of each call: all callers get one list.
    if (m.state == MemberState::kConnected) alive->push_back({member, m.incarnation});
  }
  for (const auto& [member, call] : set->second.callers) {
    calls_.erase(call);
    out.Succeed(call, AliveMembers{alive});
  }
  return pending_.erase(set);
}

bool AliveSets::Forget(CallId call) {
  auto found = calls_.find(call);
  if (found == calls_.end()) return false;
  auto [set, member] = found->second;
  calls_.erase(found);
  Pending& pending = set->second;
  LOCKSTEP_DCHECK(!pending.awaited.empty());  // else it was answered
  auto [begin, end] = pending.callers.equal_range(member);
  const auto caller = std::find_if(begin, end, [call](auto& c) { return c.second == call; });
  LOCKSTEP_DCHECK(caller != end);
  pending.callers.erase(caller);
  // A set without callers has no one to answer.
  if (pending.callers.empty()) {
    pending_.erase(set);
  } else if (!pending.callers.contains(member) &&
             membership_.Get(member).state == MemberState::kConnected) {
    pending.awaited.insert(member);
  }
  return true;
}

void AliveSets::FailAll(const ErrorPtr& error, Effects& out) {
  for (const auto& [set, pending] : pending_) {
    for (const auto& [member, call] : pending.callers) out.Fail(call, error);
  }
  pending_.clear();
  calls_.clear();
}

}  // namespace lockstep::coord

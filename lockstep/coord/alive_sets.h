// "Which of these are alive?", asked by all of them at once. Pure.
#pragma once

#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/membership.h"

namespace lockstep::coord {

// A set is answered, for all who asked, when every live member of it has asked: then there was an
// instant at which exactly those were there. Sets that differ do not wait for each other.
//
// Invariant: a pending set awaits at least one connected member that does not wait in it.
// Threads: thread-compatible. Waits have no end of their own: a member that does not ask is awaited
// until it is lost.
class AliveSets {
 public:
  explicit AliveSets(const Membership& membership) : membership_(membership) {}

  // The caller is in the list, and the list is not empty.
  void Ask(const GetAliveMembers& request, Effects& out);

  // A member is connected now, or is not any more.
  void MemberChanged(MemberIndex member, Effects& out);

  // A member is connected as another life: what the former one asked is refused with `error`, and
  // the new one is awaited. It has not said that it is there.
  void MemberRestarted(MemberIndex member, const ErrorPtr& error, Effects& out);

  // The caller left. False when it waits for no set.
  bool Forget(CallId call);

  // All who wait get the error, in the order of the sets; none waits afterwards.
  void FailAll(const ErrorPtr& error, Effects& out);

  size_t waits() const { return calls_.size(); }  // calls that wait

 private:
  using Set = std::vector<MemberIndex>;  // sorted, without repeats
  struct Pending {
    std::multimap<MemberIndex, CallId> callers;
    std::set<MemberIndex> awaited;  // connected, and not among the callers
  };
  using PendingSets = std::map<Set, Pending>;

  PendingSets::iterator Answer(PendingSets::iterator set, Effects& out);

  const Membership& membership_;
  PendingSets pending_;
  absl::flat_hash_map<CallId, std::pair<PendingSets::iterator, MemberIndex>> calls_;  // looked up
};

}  // namespace lockstep::coord

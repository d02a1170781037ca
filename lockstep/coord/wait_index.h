// What each member waits for at the moment: what a hang is explained with. Pure.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"

namespace lockstep::coord {

// Which call of which member is parked, and at what. Kept beside the tables that hold the calls,
// since those are asked by barrier or key, and this by member. It decides nothing.
//
// Threads: thread-compatible. Bounds: an entry for each parked call whose member is known, thus
// waits_max. Noting and forgetting cost O(log n), describing as well.
class WaitIndex {
 public:
  // In the order in which they tell more about a hang.
  enum class Kind { kBarrier, kIndex, kLeave, kAlive, kKey };

  // The call is parked since `now`, at `what`: a barrier's id, a key.
  void Note(Time now, CallId call, MemberIndex member, Kind kind, std::string what);
  // Answered, or its caller left. Calls that were never noted are ignored.
  void Forget(CallId call);

  // "waits at barrier 'b' for 12s"; empty: for nothing that is known.
  std::string Describe(Time now, MemberIndex member) const;

  size_t size() const { return waits_.size(); }  // calls that are noted

 private:
  struct Wait {
    MemberIndex member;
    Kind kind;
    std::string what;
    Time since;
  };
  // Newest first within a kind: a wait in the background is the oldest.
  using Place = std::tuple<MemberIndex, Kind, uint64_t>;
  static Place PlaceOf(CallId call, const Wait& wait) {
    return {wait.member, wait.kind, ~call.value()};
  }

  absl::flat_hash_map<CallId, Wait> waits_;  // looked up only
  std::set<Place> by_member_;
};

}  // namespace lockstep::coord

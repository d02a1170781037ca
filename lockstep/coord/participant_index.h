// Which open gatherings concern a member, and in which it waits. Pure.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/gathering.h"

namespace lockstep::coord {

// Finds the open `T`s of a member without looking at all that are open. Those of all members of the
// job are kept once, not once for each. `T` has a unique `id`, by which results are in order, and
// is not owned.
//
// Threads: thread-compatible. Bounds: those of its owner: open ones, and calls that wait in them.
template <class T>
class ParticipantIndex {
 public:
  explicit ParticipantIndex(Participants everybody) : everybody_(std::move(everybody)) {}

  // `open` is found by its participants until `Closed`. Those of all members cost one entry.
  void Opened(T* open, const Participants& participants) {
    if (participants == everybody_) {
      of_all_.insert(open);
    } else {
      for (MemberIndex member : *participants) of_some_[member].insert(open);
    }
  }
  // With the participants that it was opened with.
  void Closed(T* open, const Participants& participants) {
    if (participants == everybody_) {
      of_all_.erase(open);
      return;
    }
    for (MemberIndex member : *participants) EraseAt(of_some_, member, open);
  }

  void Waits(MemberIndex member, T* open) { waits_[member].insert(open); }  // until `WaitsNoLonger`
  // Also when it waited nowhere.
  void WaitsNoLonger(MemberIndex member, T* open) { EraseAt(waits_, member, open); }

  // The open ones that list the member, waiting or not; a member of the job.
  std::vector<T*> Listing(MemberIndex member) const {
    std::vector<T*> found(of_all_.begin(), of_all_.end());
    if (auto some = of_some_.find(member); some != of_some_.end()) {
      found.insert(found.end(), some->second.begin(), some->second.end());
    }
    return ById(std::move(found));
  }
  // Those in which it waits.
  std::vector<T*> WaitingIn(MemberIndex member) const {
    std::vector<T*> found;
    if (auto places = waits_.find(member); places != waits_.end()) {
      found.assign(places->second.begin(), places->second.end());
    }
    return ById(std::move(found));
  }

 private:
  template <class Map>
  static void EraseAt(Map& map, MemberIndex member, T* open) {
    auto at = map.find(member);
    if (at == map.end()) return;
    at->second.erase(open);
    if (at->second.empty()) map.erase(at);
  }
  static std::vector<T*> ById(std::vector<T*> found) {
    std::sort(found.begin(), found.end(), [](const T* a, const T* b) { return a->id < b->id; });
    return found;
  }

  const Participants everybody_;
  absl::flat_hash_set<T*> of_all_;  // none of these is iterated but through ById
  absl::flat_hash_map<MemberIndex, absl::flat_hash_set<T*>> of_some_;
  absl::flat_hash_map<MemberIndex, absl::flat_hash_set<T*>> waits_;
};

}  // namespace lockstep::coord

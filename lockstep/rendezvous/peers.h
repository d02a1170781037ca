// Which other members this one has to do with, and which of them are lost. Pure.
#pragma once

#include <utility>

#include "absl/container/btree_map.h"
#include "lockstep/base/ids.h"
#include "lockstep/rendezvous/error.h"

namespace lockstep::rendezvous {

// A member is met with the first message to it or from it, and stays known: whoever is known hears
// of aborts. Threads: thread-compatible. Bounds: one entry a member of the job.
class Peers {
 public:
  void Meet(MemberIndex peer) { why_lost_.try_emplace(peer); }
  // False: it was lost before.
  bool Lose(MemberIndex peer, ErrorPtr why) {
    ErrorPtr& lost = why_lost_[peer];
    if (lost) return false;
    lost = std::move(why);
    return true;
  }
  // It is there, again, as another incarnation.
  void Return(MemberIndex peer) {
    if (const auto found = why_lost_.find(peer); found != why_lost_.end()) found->second = nullptr;
  }
  // Whether it is known and not lost.
  bool Reaches(MemberIndex peer) const {
    const auto found = why_lost_.find(peer);
    return found != why_lost_.end() && !found->second;
  }
  // Null: it is not lost.
  ErrorPtr WhyLost(MemberIndex peer) const {
    const auto found = why_lost_.find(peer);
    return found == why_lost_.end() ? nullptr : found->second;
  }

  // Calls `see(peer, why it is lost or null)` for each known one, in their order.
  template <class See>
  void ForEach(const See& see) const {
    for (const auto& [peer, why] : why_lost_) see(peer, why);
  }

 private:
  absl::btree_map<MemberIndex, ErrorPtr> why_lost_;
};

}  // namespace lockstep::rendezvous

// Rounds: which consumers read from which round on. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/records.h"

namespace lockstep::dispatch {

// Where a lane's turns are counted from: in `round` its turn begins at `element` of the lane.
struct TurnBase {
  int64_t round = 0;
  int64_t element = 0;
};

// From `first_round` on these consumers read; consumer i of them takes the i-th element of a turn.
struct AgreedSeating {
  int64_t first_round = 0;
  std::vector<ConsumerId> consumers;

  int64_t width() const { return static_cast<int64_t>(consumers.size()); }  // elements of a turn
};

// The seatings that somebody may still need, oldest first; part of the recorded state. Knows the
// arithmetic of turns: a lane gives each round one element for each consumer seated in it.
//
// Invariants: the first rounds rise; `seated_` has the consumers of the latest. Bounds: its owner
// drops the oldest (Options.seatings_max).
class SeatingList {
 public:
  bool empty() const { return all_.empty(); }  // nobody was seated yet
  size_t size() const { return all_.size(); }  // that are kept, at least one once seated
  const std::deque<AgreedSeating>& all() const { return all_; }  // oldest first
  const AgreedSeating& oldest() const { return all_.front(); }   // not when `empty`
  const AgreedSeating& latest() const { return all_.back(); }    // not when `empty`
  // In the latest seating.
  bool IsSeated(ConsumerId consumer) const { return seated_.contains(consumer); }

  // Behind the others, or in place of the last when that begins in the same round.
  void Agree(AgreedSeating seating);
  // Drops the oldest and returns it. There is another one behind it.
  AgreedSeating DropOldest();
  // As before the first.
  void Clear() {
    all_.clear();
    seated_.clear();
  }

  // The element at which the lane's turn of this round begins.
  int64_t TurnAt(const TurnBase& base, int64_t round) const;
  // The round in which a lane ends of which so many elements are left behind its base.
  int64_t RoundBehind(const TurnBase& base, int64_t elements) const;

  // A record for each, which `Agree` takes back.
  void Snapshot(IterationId iteration, std::vector<Record>& out) const;
  bool Holds() const;  // the invariants

 private:
  std::deque<AgreedSeating> all_;
  absl::flat_hash_set<ConsumerId> seated_;  // in the latest, which is asked for each of thousands
};

}  // namespace lockstep::dispatch

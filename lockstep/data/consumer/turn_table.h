// Rounds: how many elements of a lane each round takes, and which of them are this consumer's.
// Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/data/consumer/lane_reader.h"
#include "lockstep/data/dispatch/effects.h"

namespace lockstep::dispatch {

// The seatings that were agreed on, as this consumer is told of them: in the order of their first
// rounds. A lane gives each round one element for each consumer that is seated in it.
class TurnTable {
 public:
  void Set(std::vector<Seating> seatings) { seatings_ = std::move(seatings); }

  // Null: it is not known who reads in this round.
  const Seating* At(int64_t round) const {
    const Seating* found = nullptr;
    for (const Seating& seating : seatings_) {
      if (seating.first_round <= round) found = &seating;
    }
    return found;
  }
  // The same, when this consumer is among those who read.
  const Seating* SeatAt(int64_t round) const {
    const Seating* seating = At(round);
    return seating != nullptr && seating->index >= 0 ? seating : nullptr;
  }
  // The first seating behind this round that has a seat for this consumer; null: none is known.
  const Seating* NextSeat(int64_t round) const {
    for (const Seating& later : seatings_) {
      if (later.first_round > round && later.index >= 0) return &later;
    }
    return nullptr;
  }
  // The position in the lane at which its turn of this round begins.
  int64_t Begin(const LaneReader& lane, int64_t round) const {
    int64_t position = lane.base_element;
    for (size_t i = 0; i < seatings_.size(); ++i) {
      const int64_t first = std::max(seatings_[i].first_round, lane.base_round);
      const int64_t last =
          i + 1 < seatings_.size() ? std::min(seatings_[i + 1].first_round, round) : round;
      if (last > first) position += (last - first) * seatings_[i].consumers;
    }
    return position;
  }

 private:
  std::vector<Seating> seatings_;
};

}  // namespace lockstep::dispatch

#include "lockstep/data/dispatch/seating_list.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::dispatch {

void SeatingList::Agree(AgreedSeating seating) {
  // One that nobody ever sat in is not kept.
  if (!all_.empty() && all_.back().first_round == seating.first_round) all_.pop_back();
  all_.push_back(std::move(seating));
  const std::vector<ConsumerId>& consumers = all_.back().consumers;
  seated_ = {consumers.begin(), consumers.end()};
}

AgreedSeating SeatingList::DropOldest() {
  LOCKSTEP_DCHECK(all_.size() > 1);
  AgreedSeating dropped = std::move(all_.front());
  all_.pop_front();
  return dropped;
}

int64_t SeatingList::TurnAt(const TurnBase& base, int64_t round) const {
  // Each seating counts for its own rounds, as far as they lie between the base and `round`.
  int64_t position = base.element;
  for (size_t i = 0; i < all_.size(); ++i) {
    const int64_t first = std::max(all_[i].first_round, base.round);
    const int64_t last = i + 1 < all_.size() ? std::min(all_[i + 1].first_round, round) : round;
    int64_t turns = 0;
    // Consumers report the round, up to kNumberMax: a turn that overflows counts as the largest.
    if (last > first && (__builtin_mul_overflow(last - first, all_[i].width(), &turns) ||
                         __builtin_add_overflow(position, turns, &position))) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return position;
}

int64_t SeatingList::RoundBehind(const TurnBase& base, int64_t elements) const {
  int64_t round = base.round;
  for (size_t i = 0; i < all_.size(); ++i) {
    const int64_t turns = std::max<int64_t>(0, elements) / std::max<int64_t>(1, all_[i].width());
    const bool last = i + 1 == all_.size();
    // A seating that ended before the base has no turns here.
    if (!last && all_[i + 1].first_round <= round) continue;
    if (last || turns < all_[i + 1].first_round - round) {
      round += turns;
      break;
    }
    // All its rounds have whole turns; the next seating goes on with what is left.
    elements -= (all_[i + 1].first_round - round) * all_[i].width();
    round = all_[i + 1].first_round;
  }
  LOCKSTEP_DCHECK(round >= base.round);
  return round;
}

void SeatingList::Snapshot(IterationId iteration, std::vector<Record>& out) const {
  for (const AgreedSeating& seating : all_) {
    out.push_back(record::SeatingAgreed{.iteration = iteration,
                                        .first_round = seating.first_round,
                                        .consumers = seating.consumers});
  }
}

bool SeatingList::Holds() const {
  if (seated_.size() > (all_.empty() ? 0 : all_.back().consumers.size())) return false;
  if (!all_.empty() && !std::all_of(all_.back().consumers.begin(), all_.back().consumers.end(),
                                    [this](ConsumerId id) { return IsSeated(id); })) {
    return false;
  }
  for (size_t i = 1; i < all_.size(); ++i) {
    if (all_[i].first_round <= all_[i - 1].first_round) return false;
  }
  return true;
}

}  // namespace lockstep::dispatch

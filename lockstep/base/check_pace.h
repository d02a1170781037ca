// How often a machine looks at a whole table to check its invariants. Pure.
#pragma once

#include <cstddef>

namespace lockstep {

// A look at everything after every step would make each step as dear as the table is large. So a
// small table is looked at after every step, a large one after as many steps as it has entries: on
// average a step pays for one entry.
//   LOCKSTEP_DCHECK(!pace_.IsDue(table_.size()) || table_.InvariantsHold());
class CheckPace {
 public:
  // Counts a step; true when the table of so many entries is to be looked at in this one.
  bool IsDue(size_t entries) {
    if (++steps_ < entries && entries > kSmall) return false;
    steps_ = 0;
    return true;
  }

 private:
  static constexpr size_t kSmall = 64;
  size_t steps_ = 0;
};

}  // namespace lockstep

// Work on the loop that may take longer than one turn should.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "lockstep/platform/runtime/loop.h"

namespace lockstep::runtime {

// Works in turns of TurnBudget::kTime, and lets others have the loop in between.
//
// Threads: loop-confined. Ownership: the loop outlives it. Destroyed, it works no more.
class WorkInTurns {
 public:
  // Does a little; returns whether there is more.
  using Step = std::function<bool()>;

  WorkInTurns(Loop& loop, Step step) : loop_(loop), step_(std::move(step)) {}

  // There is work. The first turn is this one, unless the work is going on.
  void Begin() {
    if (!std::exchange(running_, true)) Run();
  }
  bool running() const { return running_; }
  // Does all of it now.
  void Finish() {
    while (step_()) continue;
  }

 private:
  void Run() {
    TurnBudget budget;
    while (step_()) {
      if (!budget.Spent()) continue;
      return loop_.Post([this, alive = std::weak_ptr(alive_)] {
        if (!alive.expired()) Run();
      });
    }
    running_ = false;
  }

  Loop& loop_;
  const Step step_;
  bool running_ = false;  // or about to
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace lockstep::runtime

// What must hold after every event of a simulation. Pure.
//
// Each checker knows one rule and keeps a small model of its own; none looks into the coordinator
// but through its effects and its view.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/view.h"
#include "lockstep/sim/call_book.h"

namespace lockstep::sim {

// One event, what came of it, and how things stood before and stand after.
struct Step {
  Time now;
  const coord::Event& event;
  const coord::Effects& effects;
  const coord::CoordinatorView& before;
  const coord::CoordinatorView& after;
  const CallBook& calls;
  Time next_deadline;
  bool stopped = false;  // a Stop came, now or before

  bool new_attempt() const { return before.attempt != after.attempt; }
  template <class T>
  const T* As() const {
    return std::get_if<T>(&event);
  }
};

class Checker {
 public:
  virtual ~Checker() = default;
  virtual absl::string_view name() const = 0;
  // Empty when the rule holds, else how it is broken.
  virtual std::string Check(const Step& step) = 0;
};

using CheckerPtr = std::unique_ptr<Checker>;
using coord::CoordinatorOptions;

// A service incarnation belongs to one attempt; what carries another is refused and changes
// nothing; nothing parked outlives its attempt.
CheckerPtr NewAttemptChecker(const CoordinatorOptions& options);
// Nobody is let in before all have asked; an incarnation never goes back.
CheckerPtr NewLifeChecker(const CoordinatorOptions& options);
// A barrier passes only while all its participants wait in it, in their newest lives; one instance
// has one verdict, and that stays.
CheckerPtr NewBarrierChecker(const CoordinatorOptions& options);
// The shutdown barrier: nobody is told that all have left unless all leave.
CheckerPtr NewLeaveChecker(const CoordinatorOptions& options);
// Nobody waits for the dead, and everybody hears of the first failure, and of the same one.
CheckerPtr NewDeathChecker(const CoordinatorOptions& options);
// A member is lost for a reason, and not later than it should be.
CheckerPtr NewLossChecker(const CoordinatorOptions& options);
// Keys and values are those of an ordinary map.
CheckerPtr NewKeyChecker(const CoordinatorOptions& options);
// Who is told who is alive, or how all are, is told the truth, once all have asked.
CheckerPtr NewAliveChecker(const CoordinatorOptions& options);
// The view agrees with itself and with what was asked and answered.
CheckerPtr NewViewChecker(const CoordinatorOptions& options);
// Deadlines come when they should, and are over when they have come.
CheckerPtr NewDeadlineChecker(const CoordinatorOptions& options);

std::vector<CheckerPtr> AllCheckers(const CoordinatorOptions& options);

// Whether a poll that ends so was told of a failure of the job.
inline bool TellsOfFailure(coord::Reason reason) {
  switch (reason) {
    case coord::Reason::kSuperseded:
    case coord::Reason::kMemberLeft:
    case coord::Reason::kMemberFailed:
    case coord::Reason::kNotRegistered:
    case coord::Reason::kUnknownMember:
    case coord::Reason::kWrongServiceIncarnation:
    case coord::Reason::kLimitExceeded:
    case coord::Reason::kServiceStopped:
      return false;
    default:
      return true;
  }
}

// It is connected, and only shown as failed to people, since it was told of a failure and will end.
inline bool IsMerelyTold(const coord::MemberView& member) {
  return member.condition == coord::MemberCondition::kFailed &&
         absl::StartsWith(member.why, "it was told of the failure");
}

// As clients see it: connected, whether or not in doubt.
inline bool IsConnected(const coord::MemberView& member) {
  return member.condition == coord::MemberCondition::kConnected ||
         member.condition == coord::MemberCondition::kSuspect || IsMerelyTold(member);
}

}  // namespace lockstep::sim

#include "absl/strings/str_cat.h"
#include "lockstep/sim/checker.h"
#include "lockstep/sim/describe.h"

namespace lockstep::sim {
namespace {

class DeadlineChecker : public Checker {
 public:
  absl::string_view name() const override { return "deadlines"; }

  std::string Check(const Step& step) override {
    if (step.stopped) {
      return step.next_deadline.is_infinite() ? "" : "a deadline after the end";
    }
    const bool reached = step.As<coord::DeadlineReached>() != nullptr;
    if (reached && step.next_deadline <= step.now) {
      return absl::StrCat("the next deadline, ", FormatTime(step.next_deadline),
                          ", has come already");
    }
    for (const coord::BarrierView& barrier : step.after.barriers) {
      if (reached && barrier.deadline <= step.now) {
        return absl::StrCat("barrier '", barrier.barrier.id, "' is open after its deadline, ",
                            FormatTime(barrier.deadline));
      }
      if (step.next_deadline > barrier.deadline) {
        return absl::StrCat("nobody will look at the deadline of '", barrier.barrier.id, "', ",
                            FormatTime(barrier.deadline));
      }
    }
    return reached ? CheckRegistrations(step) : "";
  }

 private:
  // Who registers is told who is missing before it stops waiting.
  static std::string CheckRegistrations(const Step& step) {
    for (const auto& [id, call] : step.calls.open()) {
      const auto* request = std::get_if<coord::RegisterMember>(&call.event);
      if (request != nullptr && request->deadline < step.now) {
        return absl::StrCat("not told before its deadline: ", sim::Describe(call.event));
      }
    }
    return "";
  }
};

}  // namespace

CheckerPtr NewDeadlineChecker(const CoordinatorOptions&) {
  return std::make_unique<DeadlineChecker>();
}

std::vector<CheckerPtr> AllCheckers(const CoordinatorOptions& options) {
  std::vector<CheckerPtr> checkers;
  for (auto make :
       {NewAttemptChecker, NewLifeChecker, NewBarrierChecker, NewLeaveChecker, NewDeathChecker,
        NewLossChecker, NewKeyChecker, NewAliveChecker, NewViewChecker, NewDeadlineChecker}) {
    checkers.push_back(make(options));
  }
  return checkers;
}

}  // namespace lockstep::sim

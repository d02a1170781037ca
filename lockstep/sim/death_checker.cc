#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/checker.h"
#include "lockstep/sim/describe.h"

namespace lockstep::sim {
namespace {

using coord::MemberCondition;
using coord::Reason;

bool Includes(const std::vector<MemberIndex>& members, MemberIndex member) {
  return std::find(members.begin(), members.end(), member) != members.end();
}

bool Lists(const coord::BarrierView& barrier, MemberIndex member) {
  return Includes(barrier.waiting, member) || Includes(barrier.awaited, member);
}

class DeathChecker : public Checker {
 public:
  explicit DeathChecker(const CoordinatorOptions& options) : recoverable_(options.recoverable) {}
  absl::string_view name() const override { return "the dead"; }

  std::string Check(const Step& step) override {
    if (step.new_attempt()) root_cause_ = nullptr;
    if (std::string wrong = CheckPolls(step); !wrong.empty()) return wrong;
    if (recoverable_ || step.stopped) return "";
    for (const coord::MemberView& member : step.after.members) {
      if (std::string wrong = CheckBarriers(step, member); !wrong.empty()) return wrong;
    }
    return step.after.state == coord::AttemptState::kFailed ? CheckFailed(step) : "";
  }

 private:
  std::string CheckPolls(const Step& step) {
    for (const AnsweredCall& call : step.calls.answered()) {
      const auto* poll = std::get_if<coord::PollForError>(&call.asked.event);
      if (poll == nullptr || !call.reply->error || !TellsOfFailure(call.reply->error->reason)) {
        continue;
      }
      if (recoverable_ && call.reply->error->reason != Reason::kRegistrationFailed) {
        return absl::StrCat("told though members may recover: ", sim::Describe(*call.reply));
      }
      if (root_cause_ == nullptr) root_cause_ = call.reply->error;
      if (root_cause_->code != call.reply->error->code ||
          root_cause_->message != call.reply->error->message) {
        return absl::StrCat("another root cause was told: ", sim::Describe(*call.reply));
      }
      if (step.after.state != coord::AttemptState::kFailed) {
        return absl::StrCat("told of a failure in an attempt that has not failed: ",
                            sim::Describe(*call.reply));
      }
    }
    return "";
  }

  // Lost and failed members stop their barriers for good, those who left the ones that were open.
  std::string CheckBarriers(const Step& step, const coord::MemberView& member) const {
    const MemberCondition before = step.before.members[member.member.value()].condition;
    const bool dead = member.condition == MemberCondition::kLost ||
                      (member.condition == MemberCondition::kFailed && !IsMerelyTold(member));
    const bool left = member.condition == MemberCondition::kLeft &&
                      before != MemberCondition::kLeft && !step.new_attempt();
    if (!dead && !left) return "";
    for (const coord::BarrierView& barrier : step.after.barriers) {
      if (Lists(barrier, member.member) && (dead || barrier.opened < step.now)) {
        return absl::StrCat("barrier '", barrier.barrier.id, "' waits with ", member.name,
                            ", which is ", coord::MemberConditionName(member.condition));
      }
    }
    for (const auto& [id, call] : step.calls.open()) {
      const auto* poll = std::get_if<coord::PollForError>(&call.event);
      if (poll != nullptr && poll->member == member.member && call.since < step.now) {
        return absl::StrCat("still polls, but is ", coord::MemberConditionName(member.condition),
                            ": ", sim::Describe(call.event));
      }
    }
    return "";
  }

  static std::string CheckFailed(const Step& step) {
    for (const auto& [id, call] : step.calls.open()) {
      if (std::holds_alternative<coord::PollForError>(call.event) ||
          std::holds_alternative<coord::RegisterMember>(call.event) ||
          std::holds_alternative<coord::LeaveJob>(call.event)) {
        return absl::StrCat("the attempt has failed, and it still waits: ",
                            sim::Describe(call.event));
      }
    }
    return step.after.errors.empty() ? "an attempt failed without an error for people" : "";
  }

  const bool recoverable_;
  coord::ErrorPtr root_cause_;  // of this attempt, as polls were told
};

}  // namespace

CheckerPtr NewDeathChecker(const CoordinatorOptions& options) {
  return std::make_unique<DeathChecker>(options);
}

}  // namespace lockstep::sim

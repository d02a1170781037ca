#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/checker.h"
#include "lockstep/sim/describe.h"
#include "lockstep/sim/event_fields.h"

namespace lockstep::sim {
namespace {

// What a refused request might have changed. Not what merely follows from time going on.
bool SameState(const coord::CoordinatorView& a, const coord::CoordinatorView& b) {
  if (a.attempt != b.attempt || a.state != b.state || a.keys != b.keys ||
      a.key_bytes != b.key_bytes || a.waits != b.waits || a.barriers.size() != b.barriers.size() ||
      a.errors.size() != b.errors.size()) {
    return false;
  }
  for (size_t i = 0; i < a.barriers.size(); ++i) {
    if (a.barriers[i].barrier != b.barriers[i].barrier ||
        a.barriers[i].waiting != b.barriers[i].waiting) {
      return false;
    }
  }
  for (size_t i = 0; i < a.members.size(); ++i) {
    if (a.members[i].name != b.members[i].name ||
        a.members[i].last_heard != b.members[i].last_heard) {
      return false;
    }
  }
  return true;
}

class AttemptChecker : public Checker {
 public:
  absl::string_view name() const override { return "attempts"; }

  std::string Check(const Step& step) override {
    if (step.after.attempt < step.before.attempt || step.after.attempt > step.before.attempt + 1) {
      return absl::StrCat("attempt ", step.after.attempt, " follows ", step.before.attempt);
    }
    auto [known, is_new] = services_.try_emplace(step.after.service, step.after.attempt);
    if (known->second != step.after.attempt) {
      return absl::StrCat("attempt ", step.after.attempt,
                          " has the service incarnation of attempt ", known->second);
    }
    if (!step.new_attempt() && step.before.service != step.after.service) {
      return "the service incarnation changed within an attempt";
    }
    if (std::string wrong = CheckAnswers(step); !wrong.empty()) return wrong;
    if (std::string wrong = CheckRefusal(step); !wrong.empty()) return wrong;
    return step.new_attempt() ? CheckNewAttempt(step) : "";
  }

 private:
  static std::string CheckAnswers(const Step& step) {
    for (const AnsweredCall& call : step.calls.answered()) {
      if (call.reply->error) continue;
      const coord::Caller* caller = CallerOf(call.asked.event);
      if (caller != nullptr && caller->service != step.after.service) {
        return absl::StrCat("a request of another attempt succeeded: ",
                            sim::Describe(call.asked.event));
      }
      std::optional<ServiceIncarnation> told;
      if (auto* a = std::get_if<coord::Registered>(&call.reply->answer)) told = a->service;
      if (auto* a = std::get_if<coord::HeartbeatTaken>(&call.reply->answer)) told = a->service;
      if (told && *told != step.after.service) {
        return absl::StrCat("a wrong service incarnation was told: ", sim::Describe(*call.reply));
      }
    }
    return "";
  }

  static std::string CheckRefusal(const Step& step) {
    const coord::Caller* caller = CallerOf(step.event);
    if (caller == nullptr || caller->service == step.before.service || step.stopped) return "";
    const auto& replies = step.effects.replies;
    if (replies.size() != 1 || replies[0].call != caller->call || !replies[0].error ||
        replies[0].error->reason != coord::Reason::kWrongServiceIncarnation ||
        replies[0].error->right_service != step.before.service) {
      return absl::StrCat("not refused as of another attempt: ", sim::Describe(step.event));
    }
    if (!SameState(step.before, step.after)) {
      return absl::StrCat("a refused request changed something: ", sim::Describe(step.event));
    }
    return "";
  }

  static std::string CheckNewAttempt(const Step& step) {
    if (step.after.keys != 0 || !step.after.barriers.empty()) {
      return "an attempt began with keys or barriers";
    }
    for (const auto& [id, call] : step.calls.open()) {
      const coord::Caller* caller = CallerOf(call.event);
      if (caller != nullptr || call.event.index() != step.event.index() ||
          id != RequestCall(step.event)) {
        return absl::StrCat("still parked from the attempt before: ", sim::Describe(call.event));
      }
    }
    return "";
  }

  std::map<ServiceIncarnation, int64_t> services_;
};

}  // namespace

CheckerPtr NewAttemptChecker(const CoordinatorOptions&) {
  return std::make_unique<AttemptChecker>();
}

}  // namespace lockstep::sim

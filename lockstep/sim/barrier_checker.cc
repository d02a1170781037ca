#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/checker.h"
#include "lockstep/sim/describe.h"

namespace lockstep::sim {
namespace {

using coord::ArriveAtBarrier;
using coord::Reason;

// Answers that concern one caller and leave the instance as it is.
bool ConcernsCallerOnly(Reason reason) {
  switch (reason) {
    case Reason::kSuperseded:
    case Reason::kWrongServiceIncarnation:
    case Reason::kUnknownMember:
    case Reason::kNotRegistered:
    case Reason::kMemberRestarted:
    case Reason::kMemberFailed:
    case Reason::kMemberLeft:
    case Reason::kLimitExceeded:
    case Reason::kServiceStopped:
      return true;
    default:
      return false;
  }
}

class BarrierChecker : public Checker {
 public:
  explicit BarrierChecker(const CoordinatorOptions& options)
      : options_(options), newest_(options.size) {}
  absl::string_view name() const override { return "barriers"; }

  std::string Check(const Step& step) override {
    if (step.new_attempt()) verdicts_.clear();
    for (const AnsweredCall& call : step.calls.answered()) {
      const auto* request = std::get_if<coord::RegisterMember>(&call.asked.event);
      if (request != nullptr && !call.reply->error) {
        newest_[request->member.value()] = request->incarnation;
      }
    }
    std::map<std::string, std::vector<Arrival>> by_id;
    for (const AnsweredCall& call : step.calls.answered()) {
      const auto* request = std::get_if<ArriveAtBarrier>(&call.asked.event);
      if (request == nullptr) continue;
      by_id[request->id].push_back({request, call.reply, call.asked.call == EventCall(step)});
    }
    for (const auto& [id, arrivals] : by_id) {
      if (std::string wrong = CheckId(step, id, arrivals); !wrong.empty()) return wrong;
    }
    return step.As<ArriveAtBarrier>() == nullptr ? "" : CheckParked(step);
  }

 private:
  struct Arrival {
    const ArriveAtBarrier* request;
    const coord::Reply* reply;
    bool is_event;  // it came in this step
  };

  static CallId EventCall(const Step& step) {
    const auto* request = step.As<ArriveAtBarrier>();
    return request == nullptr ? CallId() : request->caller.call;
  }

  std::string CheckId(const Step& step, const std::string& id,
                      const std::vector<Arrival>& arrivals) {
    std::vector<Arrival> passed;
    const Arrival* failed = nullptr;
    for (const Arrival& arrival : arrivals) {
      if (!arrival.reply->error) {
        passed.push_back(arrival);
        continue;
      }
      const coord::Error& error = *arrival.reply->error;
      if (ConcernsCallerOnly(error.reason)) continue;
      if (!arrival.is_event || arrivals.size() > 1) {
        if (failed != nullptr && (failed->reply->error->code != error.code ||
                                  failed->reply->error->message != error.message)) {
          return absl::StrCat("different verdicts in one instance: ", sim::Describe(*failed->reply),
                              " and ", sim::Describe(*arrival.reply));
        }
        failed = &arrival;
      }
      if (std::string wrong = CheckStays(id, arrival); !wrong.empty()) return wrong;
    }
    if (!passed.empty() && failed != nullptr) {
      return absl::StrCat("barrier '", id, "' passed for some and failed for others");
    }
    if (failed != nullptr) {
      if (failed->reply->error->barrier) {
        verdicts_[{id, failed->reply->error->barrier->counter}] = false;
      }
      return CheckNobodyLeft(step, id);
    }
    return passed.empty() ? "" : CheckPassed(step, id, passed);
  }

  // A later caller must not hear that an instance failed which has passed.
  std::string CheckStays(const std::string& id, const Arrival& arrival) const {
    const coord::Error& error = *arrival.reply->error;
    if (!error.barrier) return "";
    auto verdict = verdicts_.find({id, error.barrier->counter});
    const bool timed_out_or_cancelled =
        error.reason == Reason::kBarrierTimedOut || error.reason == Reason::kBarrierCancelled ||
        error.reason == Reason::kBarrierMemberFailed || error.reason == Reason::kBarrierMemberLeft;
    if (verdict != verdicts_.end() && verdict->second && timed_out_or_cancelled && !MayForget()) {
      return absl::StrCat("a verdict changed: ", sim::Describe(*arrival.reply));
    }
    return "";
  }

  std::string CheckPassed(const Step& step, const std::string& id,
                          const std::vector<Arrival>& passed) {
    const int64_t counter = std::get<coord::BarrierPassed>(passed[0].reply->answer).counter;
    auto verdict = verdicts_.find({id, counter});
    if (verdict != verdicts_.end()) {
      const bool a_late_caller = verdict->second && passed.size() == 1 && passed[0].is_event &&
                                 passed[0].request->counter == counter;
      if (a_late_caller) return "";
      if (!MayForget()) return absl::StrCat("barrier '", id, "::", counter, "' ended once more");
    }
    std::set<MemberIndex> released;
    for (const Arrival& arrival : passed) {
      if (std::get<coord::BarrierPassed>(arrival.reply->answer).counter != counter) {
        return absl::StrCat("barrier '", id, "' passed with different counters");
      }
      if (arrival.request->counter != counter &&
          !(options_.recoverable && arrival.request->counter == 0)) {
        return absl::StrCat("passed with counter ", counter, ": ",
                            sim::Describe(coord::Event(*arrival.request)));
      }
      released.insert(arrival.request->member);
      const Incarnation newest = newest_[arrival.request->member.value()];
      if (arrival.request->caller.incarnation != newest) {
        return absl::StrCat("an older life was counted: ",
                            sim::Describe(coord::Event(*arrival.request)));
      }
    }
    for (const Arrival& arrival : passed) {
      if (released != Listed(*arrival.request)) {
        return absl::StrCat("passed with ", released.size(),
                            " waiting: ", sim::Describe(coord::Event(*arrival.request)));
      }
    }
    verdicts_[{id, counter}] = true;
    return CheckNobodyLeft(step, id);
  }

  // Old verdicts may be forgotten; such an instance may begin again.
  bool MayForget() const { return options_.kept_barriers_max < 100; }

  std::set<MemberIndex> Listed(const ArriveAtBarrier& request) const {
    std::set<MemberIndex> listed(request.members.begin(), request.members.end());
    for (int32_t i = 0; listed.size() < newest_.size() && request.members.empty(); ++i) {
      listed.insert(MemberIndex(i));
    }
    return listed;
  }

  static std::string CheckNobodyLeft(const Step& step, const std::string& id) {
    for (const auto& [call, open] : step.calls.open()) {
      const auto* request = std::get_if<ArriveAtBarrier>(&open.event);
      if (request != nullptr && request->id == id) {
        return absl::StrCat("its instance has ended, and it still waits: ",
                            sim::Describe(open.event));
      }
    }
    return "";
  }

  // At most one call of a member waits under an id.
  static std::string CheckParked(const Step& step) {
    const auto* arrived = step.As<ArriveAtBarrier>();
    int waiting = 0;
    for (const auto& [call, open] : step.calls.open()) {
      const auto* request = std::get_if<ArriveAtBarrier>(&open.event);
      if (request != nullptr && request->id == arrived->id && request->member == arrived->member) {
        ++waiting;
      }
    }
    return waiting > 1 ? absl::StrCat("waits twice: ", sim::Describe(step.event)) : "";
  }

  const CoordinatorOptions options_;
  std::vector<Incarnation> newest_;  // by member: its last life that was let in
  // By id and counter, of this attempt: whether it passed.
  std::map<std::pair<std::string, int64_t>, bool> verdicts_;
};

}  // namespace

CheckerPtr NewBarrierChecker(const CoordinatorOptions& options) {
  return std::make_unique<BarrierChecker>(options);
}

}  // namespace lockstep::sim

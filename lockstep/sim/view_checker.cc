#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/checker.h"

namespace lockstep::sim {
namespace {

class ViewChecker : public Checker {
 public:
  explicit ViewChecker(const CoordinatorOptions& options) : options_(options) {}
  absl::string_view name() const override { return "view"; }

  std::string Check(const Step& step) override {
    const coord::CoordinatorView& view = step.after;
    if (step.stopped && !step.calls.open().empty()) return "a call is parked after the end";
    if (view.waits != step.calls.open().size()) {
      return absl::StrCat("counts ", view.waits, " waits, but ", step.calls.open().size(),
                          " calls are open");
    }
    if (static_cast<int32_t>(view.members.size()) != options_.size) return "members are missing";
    for (size_t i = 0; i < view.members.size(); ++i) {
      if (view.members[i].member != MemberIndex(static_cast<int32_t>(i)))
        return "members out of order";
    }
    if (std::string wrong = CheckBarriers(step); !wrong.empty()) return wrong;
    size_t key_waits = 0;
    for (const coord::KeyWaitView& wait : view.key_waits) key_waits += wait.waiters;
    if (key_waits != CountKeyWaits(step)) return "other waits for keys are shown than there are";
    return CheckErrors(view);
  }

 private:
  template <class T>
  static size_t Count(const Step& step) {
    size_t count = 0;
    for (const auto& [id, call] : step.calls.open()) {
      count += std::holds_alternative<T>(call.event);
    }
    return count;
  }

  // But those of the thread that every stock process has for the notice of a preemption.
  static size_t CountKeyWaits(const Step& step) {
    size_t count = 0;
    for (const auto& [id, call] : step.calls.open()) {
      const auto* get = std::get_if<coord::GetKey>(&call.event);
      count += get != nullptr && get->key != "RECEIVED_PREEMPTION_NOTICE";
    }
    return count;
  }

  std::string CheckBarriers(const Step& step) const {
    std::map<std::string, std::vector<MemberIndex>> waiting;
    for (const auto& [id, call] : step.calls.open()) {
      if (const auto* arrival = std::get_if<coord::ArriveAtBarrier>(&call.event)) {
        waiting[arrival->id].push_back(arrival->member);
      }
    }
    size_t leaving = 0;
    for (const coord::BarrierView& barrier : step.after.barriers) {
      if (barrier.barrier.id.starts_with("Shutdown::")) {
        leaving += barrier.waiting.size();
        continue;
      }
      std::vector<MemberIndex>& callers = waiting[barrier.barrier.id];
      std::sort(callers.begin(), callers.end());
      if (callers != barrier.waiting) {
        return absl::StrCat("barrier '", barrier.barrier.id, "' shows ", barrier.waiting.size(),
                            " waiting, but ", callers.size(), " calls are open");
      }
      waiting.erase(barrier.barrier.id);
      for (MemberIndex member : barrier.awaited) {
        if (std::binary_search(barrier.waiting.begin(), barrier.waiting.end(), member)) {
          return absl::StrCat("a member of '", barrier.barrier.id, "' waits and is awaited");
        }
      }
    }
    if (!waiting.empty()) return absl::StrCat("barrier '", waiting.begin()->first, "' is missing");
    return leaving == Count<coord::LeaveJob>(step) ? "" : "members that leave are missing";
  }

  std::string CheckErrors(const coord::CoordinatorView& view) const {
    if (view.errors.size() > options_.kept_errors_max) return "more errors than are to be kept";
    for (size_t i = 1; i < view.errors.size(); ++i) {
      if (view.errors[i].at < view.errors[i - 1].at) return "errors out of order";
    }
    return "";
  }

  const CoordinatorOptions options_;
};

}  // namespace

CheckerPtr NewViewChecker(const CoordinatorOptions& options) {
  return std::make_unique<ViewChecker>(options);
}

}  // namespace lockstep::sim

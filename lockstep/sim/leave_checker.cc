#include <set>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/checker.h"
#include "lockstep/sim/describe.h"

namespace lockstep::sim {
namespace {

class LeaveChecker : public Checker {
 public:
  explicit LeaveChecker(const CoordinatorOptions& options)
      : size_(options.size),
        together_(options.shutdown_timeout > absl::ZeroDuration() && !options.recoverable) {}
  absl::string_view name() const override { return "leaving"; }

  std::string Check(const Step& step) override {
    if (step.new_attempt()) ended_ = false;
    std::set<MemberIndex> left;
    const coord::Error* failed = nullptr;
    for (const AnsweredCall& call : step.calls.answered()) {
      const auto* request = std::get_if<coord::LeaveJob>(&call.asked.event);
      if (request == nullptr) continue;
      if (!call.reply->error) {
        left.insert(request->member);
      } else if (call.reply->error->reason == coord::Reason::kShutdownFailed) {
        failed = call.reply->error.get();
      }
    }
    if (!together_) return "";
    if (failed != nullptr) {
      ended_ = true;
      if (!left.empty()) return "shutdown succeeded for some and failed for others";
    }
    if (!left.empty() && !ended_) {
      if (static_cast<int32_t>(left.size()) != size_) {
        return absl::StrCat("shutdown ended with ", left.size(), " of ", size_, " members");
      }
      ended_ = true;
    }
    return "";
  }

 private:
  const int32_t size_;
  const bool together_;
  bool ended_ = false;  // in this attempt
};

}  // namespace

CheckerPtr NewLeaveChecker(const CoordinatorOptions& options) {
  return std::make_unique<LeaveChecker>(options);
}

}  // namespace lockstep::sim

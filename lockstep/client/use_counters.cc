#include "lockstep/client/use_counters.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

using wire::native::ReasonOf;

// Verdicts on a use, rather than on a call.
constexpr std::array<std::string_view, 11> kVerdicts = {
    "barrier_timed_out",        "barrier_cancelled",        "barrier_member_failed",
    "barrier_member_left",      "barrier_counter_mismatch", "barrier_conflicting_members",
    "barrier_values_forgotten", "agreement_timed_out",      "agreement_counter_mismatch",
    "agreement_conflict",       "barrier_not_participant"};

// The number of the use that is over; nothing when none is.
std::optional<int64_t> Ended(int64_t used, const absl::Status& status) {
  if (status.ok()) return used;
  const auto details = wire::native::DetailsOf(status);
  int64_t counter = 0;
  if (const auto it = details.find("counter");
      it != details.end() && absl::SimpleAtoi(it->second, &counter)) {
    return counter;
  }
  const std::string reason = ReasonOf(status);
  if (std::find(kVerdicts.begin(), kVerdicts.end(), reason) == kVerdicts.end()) return std::nullopt;
  return used;
}

}  // namespace

absl::StatusOr<int64_t> UseCounters::Begin(const std::string& name) {
  Use& use = uses_.try_emplace(name, Use{.place = ended_.end()}).first->second;
  if (use.open) {
    return wire::native::WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            "this member waits at '", name,
            "' already: wait for that call to end, or cancel it, or use another name")),
        "call_open");
  }
  LOCKSTEP_DCHECK(ended_.size() <= uses_.size());
  if (use.place != ended_.end()) ended_.erase(use.place);
  use.place = ended_.end();
  use.open = true;
  return use.next;
}

void UseCounters::End(const std::string& name, const absl::Status& status) {
  const auto it = uses_.find(name);
  if (it == uses_.end() || !it->second.open) return;
  Use& use = it->second;
  if (const auto ended = Ended(use.next, status)) use.next = *ended + 1;
  use.open = false;
  use.place = ended_.insert(ended_.end(), name);
  if (ended_.size() <= names_max_) return;
  uses_.erase(ended_.front());
  ended_.pop_front();
}

}  // namespace lockstep::client

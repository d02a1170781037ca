// A consumer's requests to the dispatcher: which are on their way, and when to try again. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/data/consumer/consumer_machine.h"

namespace lockstep::dispatch {

// One that is on its way. A poll carries what cannot be said twice: so many of the reports at the
// front of the consumer's lists.
struct CallInFlight {
  enum class Kind { kOpen, kPoll, kClose };
  Kind kind = Kind::kPoll;
  size_t unreachable = 0;
  size_t failures = 0;
};

// Bounds: two polls, by who adds; one of the others.
class DispatcherCalls {
 public:
  // Waits so long before the first retry, and up to so long before later ones.
  DispatcherCalls(absl::Duration retry_first, absl::Duration retry_max)
      : retry_first_(retry_first), retry_max_(retry_max) {}

  RequestId Add(CallInFlight call) {
    const RequestId id(++last_);
    calls_[id] = call;
    return id;
  }
  // It is answered. None: it was before.
  std::optional<CallInFlight> Take(RequestId id) {
    const auto found = calls_.find(id);
    if (found == calls_.end()) return std::nullopt;
    const CallInFlight call = found->second;
    calls_.erase(found);
    return call;
  }
  // The reports that the call carried have arrived: those behind them have moved up.
  void DropReports(const CallInFlight& arrived) {
    for (auto& [id, call] : calls_) {
      call.unreachable -= std::min(call.unreachable, arrived.unreachable);
      call.failures -= std::min(call.failures, arrived.failures);
    }
  }
  size_t polls() const {
    return static_cast<size_t>(std::count_if(calls_.begin(), calls_.end(), [](const auto& entry) {
      return entry.second.kind == CallInFlight::Kind::kPoll;
    }));
  }

  // --- A dispatcher that does not answer ---
  // It is expected to answer from now on.
  void Expect(Time now) { silent_since_ = now; }
  void NoteAnswer(Time now) {
    backoff_ = absl::ZeroDuration();
    retry_at_ = Time::Infinite();
    silent_since_ = now;
  }
  absl::Duration SilentFor(Time now) const { return now - silent_since_; }
  // Each time twice as late.
  void Retry(Time now) {
    backoff_ = backoff_ == absl::ZeroDuration() ? retry_first_ : std::min(backoff_ * 2, retry_max_);
    retry_at_ = std::min(retry_at_, now + backoff_);
  }
  Time retry_at() const { return retry_at_; }
  bool retrying() const { return retry_at_ != Time::Infinite(); }
  // Whether to try again now, which is then under way.
  bool TakeRetry(Time now) {
    if (retry_at_ > now) return false;
    retry_at_ = Time::Infinite();
    return true;
  }

 private:
  const absl::Duration retry_first_;
  const absl::Duration retry_max_;
  std::map<RequestId, CallInFlight> calls_;
  uint64_t last_ = 0;
  Time retry_at_ = Time::Infinite();
  absl::Duration backoff_;
  Time silent_since_ = Time::Infinite();
};

}  // namespace lockstep::dispatch

// A consumer's requests to the dispatcher: which are on their way, what they report about workers,
// and when to try again. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/data/dispatch/events.h"

namespace lockstep::dispatch {

// One that is on its way. A poll carries what cannot be said twice: so many of the reports at the
// front of both lists.
struct CallInFlight {
  enum class Kind { kOpen, kPoll, kClose };
  Kind kind = Kind::kPoll;
  size_t unreachable = 0;
  size_t failures = 0;
};

// Owns the reports about workers until a poll that carried them has arrived.
//
// Bounds: two polls, by who adds; one of the others. Reports: one of each worker that cannot be
// reached, and one of each failed read, of which there are as many as the back-off lets through.
class DispatcherCalls {
 public:
  // Waits so long before the first retry, and up to so long before later ones.
  DispatcherCalls(absl::Duration retry_first, absl::Duration retry_max)
      : retry_first_(retry_first), retry_max_(retry_max) {}

  // A poll carries all reports that there are.
  RequestId Add(CallInFlight::Kind kind) {
    const RequestId id(++last_);
    CallInFlight& call = calls_[id];
    call.kind = kind;
    if (kind == CallInFlight::Kind::kPoll) {
      call.unreachable = unreachable_.size();
      call.failures = failures_.size();
    }
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
  // The reports that the call carried have arrived: those behind them move up.
  void DropReports(const CallInFlight& arrived) {
    EraseFront(unreachable_, arrived.unreachable);
    EraseFront(failures_, arrived.failures);
    for (auto& [id, call] : calls_) {
      call.unreachable -= std::min(call.unreachable, arrived.unreachable);
      call.failures -= std::min(call.failures, arrived.failures);
    }
  }
  // Polls that are not answered.
  size_t polls() const {
    return static_cast<size_t>(std::count_if(calls_.begin(), calls_.end(), [](const auto& entry) {
      return entry.second.kind == CallInFlight::Kind::kPoll;
    }));
  }

  // --- Reports about workers, oldest first ---
  // False: that is reported already.
  bool ReportUnreachable(WorkerId worker) {
    if (std::find(unreachable_.begin(), unreachable_.end(), worker) != unreachable_.end()) {
      return false;
    }
    unreachable_.push_back(worker);
    return true;
  }
  void ReportFailure(SegmentFailure failure) { failures_.push_back(std::move(failure)); }
  // What the next poll carries; kept until `DropReports` says that it has arrived.
  const std::vector<WorkerId>& unreachable() const { return unreachable_; }
  const std::vector<SegmentFailure>& failures() const { return failures_; }

  // --- A dispatcher that does not answer ---
  // It is expected to answer from now on.
  void Expect(Time now) { silent_since_ = now; }
  // It lives: the next retry, if one is needed, is the first again.
  void NoteAnswer(Time now) {
    backoff_ = absl::ZeroDuration();
    retry_at_ = Time::Infinite();
    silent_since_ = now;
  }
  // Since the last answer, or since one was expected.
  absl::Duration SilentFor(Time now) const { return now - silent_since_; }
  // Each time twice as late.
  void Retry(Time now) {
    backoff_ = backoff_ == absl::ZeroDuration() ? retry_first_ : std::min(backoff_ * 2, retry_max_);
    retry_at_ = std::min(retry_at_, now + backoff_);
  }
  // When to try again; infinite: nothing failed since the last try.
  Time retry_at() const { return retry_at_; }
  bool retrying() const { return retry_at_ != Time::Infinite(); }
  // Whether to try again now, which is then under way.
  bool TakeRetry(Time now) {
    if (retry_at_ > now) return false;
    retry_at_ = Time::Infinite();
    return true;
  }

 private:
  template <class T>
  static void EraseFront(std::vector<T>& list, size_t count) {
    const auto end = list.begin() + static_cast<std::ptrdiff_t>(std::min(count, list.size()));
    list.erase(list.begin(), end);
  }

  const absl::Duration retry_first_;
  const absl::Duration retry_max_;
  std::map<RequestId, CallInFlight> calls_;
  std::vector<WorkerId> unreachable_;
  std::vector<SegmentFailure> failures_;
  uint64_t last_ = 0;
  Time retry_at_ = Time::Infinite();
  absl::Duration backoff_;
  Time silent_since_ = Time::Infinite();
};

}  // namespace lockstep::dispatch

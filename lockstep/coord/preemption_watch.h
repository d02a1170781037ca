// The state of the attempt's preemption, and those who are told when it changes. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/preemption.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// Each change takes the next version and is in a record. A watcher says which version it knows, and
// is answered as soon as there is another one: at the end of the event, so that changes of one
// event make one answer.
//
// Invariants: (1) a version is published once; (2) the sync step of a preemption, once there is
// one, never changes.
//
// Threads: thread-compatible. Bounds: one entry for a parked call (waits_max).
class PreemptionWatch {
 public:
  const PreemptionState& state() const { return *state_; }
  // A copy to be changed, with the next version; `Publish` makes it the state.
  PreemptionState Next() const;
  void Publish(Time now, PreemptionState next, Effects& out);

  // The call is answered with PreemptionChanged as soon as the version is not `after`.
  void Park(CallId call, int64_t after) { parked_[call] = after; }
  // The caller left. False when it does not watch here.
  bool Forget(CallId call) { return parked_.erase(call) > 0; }
  // Answers the watchers of other versions. To be called after every event.
  void Flush(Effects& out);
  // Every watcher gets the error.
  void FailAll(const ErrorPtr& error, Effects& out);
  size_t waits() const { return parked_.size(); }

  // INVALID_ARGUMENT: the version is no later one. `attempt`: the one that is on.
  absl::Status Apply(Time at, const record::PreemptionChanged& record, int64_t attempt);
  void Snapshot(std::vector<TimedRecord>& out) const;

 private:
  // Shared with the answers that tell of it.
  std::shared_ptr<const PreemptionState> state_ = std::make_shared<const PreemptionState>();
  std::map<CallId, int64_t> parked_;  // with the version that the watcher knows
};

}  // namespace lockstep::coord

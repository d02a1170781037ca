// Those who follow the job: which members and errors are new since they looked last. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/attempt.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"

namespace lockstep::coord {

// Parks watchers until the version of the job is greater than theirs, then tells them what has
// changed since; at most every watch_interval, and at once after a rest. Follows the job through
// its attempts. What changes only with time (nothing was heard of a member for long) is no change.
//
// A delta costs as much as has changed; watchers that ask for the same share one. Where more than
// kMembersToldMax members are to be told, it says only which: what it says of them is of its
// version or later, and what changes after its version is told next in any case.
//
// Threads: thread-compatible. Bounds: waits_max over all calls of the job.
class JobWatch {
 public:
  // Members whose state one change has in it: `members_told_max`.
  static constexpr size_t kMembersToldMax = 256;

  explicit JobWatch(const JobRecord& job) : job_(job) {}

  // Answered with JobChanged: at once, unless `after` is the job's version. A version that this job
  // never had, or does not remember so far back, is answered with the whole state.
  // RESOURCE_EXHAUSTED (limit_exceeded, memory_max): too many calls of the job wait, or there is no
  // memory left.
  void Watch(Time now, const WatchJob& request, const Attempt& attempt, Effects& out);

  // Called after every event: answers the watchers if there is something new and it is time.
  void Flush(Time now, const Attempt& attempt, Effects& out);
  Time NextDeadline() const;  // infinite while there is nothing new, or nobody to tell

  bool Forget(CallId call) { return parked_.erase(call) > 0; }  // false: the call is not parked
  // All who wait get the error; none waits afterwards.
  void FailAll(const ErrorPtr& error, Effects& out);

  size_t waits() const { return parked_.size(); }  // calls that wait

 private:
  JobChanged ChangeSince(Time now, int64_t after, const Attempt& attempt) const;

  const JobRecord& job_;
  std::map<CallId, int64_t> parked_;  // with the version that the watcher knows
  int64_t oldest_parked_ = 0;         // no parked version is older
  std::optional<Time> not_before_;
};

}  // namespace lockstep::coord

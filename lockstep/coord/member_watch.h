// Those who want to hear of every change among the members. Pure.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/membership.h"

namespace lockstep::coord {

// Parks watchers until the version of the membership differs from theirs. A snapshot is made once
// for all watchers, and watchers are answered at most every watch_interval, so that a thousand
// members that come one by one do not cost a thousand snapshots for each of a thousand watchers.
// The first change after a rest is told at once.
//
// Threads: thread-compatible.
class MemberWatch {
 public:
  // `membership` outlives it.
  MemberWatch(const Membership& membership, absl::Duration interval)
      : membership_(membership), interval_(interval) {}

  // A version that is not the current one, whichever, is answered at once.
  void Watch(CallId call, std::optional<int64_t> version, Effects& out);

  // Called after every event: answers the watchers if there is something new and it is time.
  void Flush(Time now, Effects& out);
  Time NextDeadline() const;  // infinite while there is nothing new, or nobody to tell

  bool Forget(CallId call) { return parked_.erase(call) > 0; }  // false: the call is not parked

  // The service stops: as upstream, watchers get an empty list and version -1, with success.
  void Stop(Effects& out);
  // All who wait get the error; none waits afterwards.
  void FailAll(const ErrorPtr& error, Effects& out);

  size_t waits() const { return parked_.size(); }  // calls that wait

 private:
  MembersWatched Snapshot();

  const Membership& membership_;
  const absl::Duration interval_;
  std::map<CallId, int64_t> parked_;  // with the version that the watcher knows
  int64_t oldest_parked_ = 0;         // no parked version is older
  std::optional<Time> not_before_;
  std::shared_ptr<const std::vector<MemberStatus>> snapshot_;
  int64_t snapshot_version_ = -1;
};

}  // namespace lockstep::coord

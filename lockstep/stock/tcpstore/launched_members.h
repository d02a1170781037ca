// Which members of an attempt have been started and have ended, as launchers tell. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace lockstep::tcpstore {

// One attempt at a time. It is launched once a launcher has asked for its store or told of one of
// its processes; without a launcher it never ends here.
//
// Threads: thread-compatible. Bounds: `ranks` members.
class LaunchedMembers {
 public:
  // `ranks`: of the job.
  explicit LaunchedMembers(int32_t ranks) : ranks_(ranks), size_(ranks) {}

  // An attempt begins of which nothing is known but the size of the next run.
  void Begin();
  // A launcher is there. The attempt has the size that `RunBegan` said last, if it did since the
  // attempt before; else all ranks.
  void Launched();
  bool launched() const { return launched_; }

  // The attempt that is launched next has so many members.
  void RunBegan(int32_t size) { next_size_ = size; }
  // A process of a member runs, which replaces its older one. Of a member that the job does not
  // have: ignored.
  void ProcessStarted(int32_t member, int64_t pid);
  // False: it is no process that runs, or an older one of the member, of which is told late.
  bool ProcessEnded(int32_t member, int64_t pid);

  // Whether all members of the launched attempt have been started and have ended. A member that has
  // yet to be started may be of another node.
  bool AllEnded() const {
    return launched_ && running_.empty() && !started_.empty() &&
           started_.size() >= static_cast<size_t>(size_);
  }

 private:
  const int32_t ranks_;
  std::optional<int32_t> next_size_;
  int32_t size_;  // members of the attempt
  bool launched_ = false;
  // Neither is iterated.
  absl::flat_hash_map<int32_t, int64_t> running_;  // members' pids
  absl::flat_hash_set<int32_t> started_;           // members
};

}  // namespace lockstep::tcpstore

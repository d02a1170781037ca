// For a server that belongs to another process, such as `lockstep.serve` in a notebook.
#pragma once

#include <sys/types.h>

#include <memory>

#include "absl/status/statusor.h"

namespace lockstep::server {

// From the death of the process to which the server belongs until it is killed: `drain_time_max`.
inline constexpr int kDrainTimeMaxMs = 5000;

// Sends this process SIGTERM when another one has ended, in whatever way, and SIGKILL if it is then
// still there. By a descriptor of that process, not by PR_SET_PDEATHSIG: that one means the
// *thread* that started us, and not by a pipe: what that process forked would hold it open.
//
// Threads: has one of its own, which nothing of ours can hold up.
class ParentWatch {
 public:
  // NOT_FOUND when the process is gone already.
  static absl::StatusOr<std::unique_ptr<ParentWatch>> Start(pid_t parent);
  // Stops watching.
  ~ParentWatch();
  ParentWatch(const ParentWatch&) = delete;
  ParentWatch& operator=(const ParentWatch&) = delete;

 private:
  class Impl;
  explicit ParentWatch(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::server

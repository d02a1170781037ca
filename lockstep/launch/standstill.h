// For how long processes have not moved: told by how often the kernel let their main threads run.
// Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::launch {

// Whoever waits in a collective does not run, so a count that stays the same says since when it
// waits. It is looked at every now and then; however rarely, what is said is never too long.
//
// Threads: thread-compatible.
class Standstill {
 public:
  // The process has this count now.
  void Seen(Time now, int64_t pid, int64_t count);
  // We have had it run ourselves, to ask it something: its next count says nothing.
  void Disturbed(int64_t pid);
  // Forgets all others.
  void KeepOnly(const std::set<int64_t>& pids);

  // Absent: it was not looked at yet.
  std::optional<absl::Duration> For(Time now, int64_t pid) const;

 private:
  struct Process {
    int64_t count = 0;
    Time since;
    bool disturbed = false;
  };
  std::map<int64_t, Process> processes_;  // by pid
};

}  // namespace lockstep::launch

// The process that sees to it that nothing outlives `lockstep run`, even when that is SIGKILLed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::launch {

// Groups that one guardian watches: `guardian_groups_max`.
inline constexpr size_t kGuardianGroupsMax = 8192;

// Whether an environment block (`NAME=value` strings, each ended by a zero byte) says that its
// process belongs to the run `run_id`: LOCKSTEP_RUN_ID is a list of ids with colons between.
bool BelongsToRun(std::string_view environment_block, std::string_view run_id);

// Whom the guardian tells that members' processes were killed, since their launcher is gone.
struct WhoIsTold {
  std::string job;
  std::string address;  // of its server; empty: nobody
};

// A child of ours in a session of its own, deaf to all signals but SIGKILL. It reads the process
// groups to watch from a pipe. When the pipe ends, because its owner closed it or died in whatever
// way, it kills
//   1. every group that is still watched, and
//   2. every process whose environment carries the id of this run: those that left their group,
// removes the run's temporary folder, tells the server of the members' processes unless its owner
// ended in order, and ends.
//
// Threads: start it before the first thread. the rest is loop-confined.
class Guardian {
 public:
  // `temporary_folder` holds plain files only, and may be empty: then there is none.
  static absl::StatusOr<Guardian> Start(const std::string& run_id,
                                        const std::string& temporary_folder,
                                        const WhoIsTold& told = {});
  Guardian(Guardian&&) = default;
  Guardian& operator=(Guardian&&) = delete;
  // As `Finish`.
  ~Guardian();

  // A child that is about to run a program enters itself; a group is forgotten before its leader is
  // reaped, so that its number cannot belong to somebody else by then.
  void Forget(pid_t group);

  // Where a child enters itself by writing one entry, in one piece.
  struct Entry {
    pid_t group = 0;  // 0: its owner ends in order, and tells of its processes itself
    bool watch = false;
    int32_t member = -1;  // whose process leads the group; -1: no member's
  };
  pid_t pid() const { return pid_; }
  int entry_fd() const { return pipe_.get(); }

  // Ends what is left of the run, and waits for that; bounded, since the guardian is.
  void Finish();

 private:
  Guardian(pid_t pid, runtime::UniqueFd pipe) : pid_(pid), pipe_(std::move(pipe)) {}

  pid_t pid_;
  runtime::UniqueFd pipe_;
};

}  // namespace lockstep::launch

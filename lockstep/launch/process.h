// One process that `lockstep run` starts, with everything that this one starts in its turn.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/launch/guardian.h"
#include "lockstep/launch/supervisor.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::launch {

// A program and what it is given.
struct Command {
  std::string path;                    // of the file to execute
  std::vector<std::string> arguments;  // the first is the program's own name
};

// The signals as they were before `lockstep run` changed anything; its children get them so.
struct InheritedSignals {
  sigset_t mask = {};
  bool pipe_ignored = false;
};

// What a wait told besides the end: stopped by `signal`, or going on.
struct StateChange {
  bool stopped = false;
  int signal = 0;
};

// A process that leads a process group of its own. It reads nothing (/dev/null), writes into two
// pipes of ours, gets SIGKILL when the thread that started it ends, and is in the guardian's books
// before it runs its first instruction of the command.
//
// It stays a zombie from its end until `Release`: that keeps its pid, so that the group can be
// signalled without hitting a stranger.
//
// Threads: loop-confined.
class Process {
 public:
  // `guardian` must outlive the process; `member` is whose process it is, for the guardian's word,
  // or -1. RESOURCE_EXHAUSTED: no process is to be had; NOT_FOUND and FAILED_PRECONDITION: the
  // command cannot be executed.
  static absl::StatusOr<std::unique_ptr<Process>> Start(const Command& command,
                                                        const std::vector<std::string>& environment,
                                                        const InheritedSignals& signals,
                                                        Guardian& guardian, int32_t member = -1);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  // As `Release`.
  ~Process();

  pid_t pid() const { return pid_; }
  // Its number is still its own.
  bool held() const { return guardian_ != nullptr; }
  // Readable when the process has ended. Handed over once.
  runtime::UniqueFd TakePidfd() { return std::move(pidfd_); }
  // The reading ends, non-blocking. Handed over once.
  runtime::UniqueFd TakeOutput() { return std::move(output_); }
  runtime::UniqueFd TakeErrors() { return std::move(errors_); }

  // To the whole group.
  void Signal(int signal) const;

  // How the process ended, when it has.
  std::optional<ExitStatus> PollExit() const;

  // The next change not seen before: call until there is none.
  std::optional<StateChange> PollStateChange() const;

  // Kills what is left of the group, and reaps the process if it has ended. Idempotent.
  void Release();

 private:
  Process(pid_t pid, Guardian& guardian) : pid_(pid), guardian_(&guardian) {}

  pid_t pid_;
  Guardian* guardian_;  // null when released
  runtime::UniqueFd pidfd_;
  runtime::UniqueFd output_;
  runtime::UniqueFd errors_;
};

}  // namespace lockstep::launch

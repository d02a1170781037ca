// A program that `lockstep run` starts for itself: the server when it is given none, or the agent
// of its host.
#pragma once

#include <memory>
#include <string>
#include <variant>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/launch/environment.h"
#include "lockstep/launch/guardian.h"
#include "lockstep/launch/log_tail.h"
#include "lockstep/launch/process.h"
#include "lockstep/launch/ready_file.h"
#include "lockstep/launch/server_process.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::launch {

// What is kept of the server's log, to be shown when it fails: `server_log_lines_max`.
inline constexpr size_t kServerLogLinesMax = 20;

struct PrivateServerOptions {
  std::string name = "lockstep-server";  // in sentences
  std::string label = "server";          // before the lines of its log
  Command command;                       // but for the ready file
  std::string job;
  std::string folder;  // ours alone; the ready file is written there
  Environment environment;
  std::string run_id;
  InheritedSignals signals;
  bool show_log = false;
  absl::Duration start_timeout = absl::Seconds(20);
  // From SIGTERM until SIGKILL.
  absl::Duration stop_timeout = absl::Seconds(5);
};

// Starts it, waits until it answers, and stops it.
//
// Threads: loop-confined. Destroy it when the loop has stopped. `loop` and `guardian` must outlive
// it.
class PrivateServer {
 public:
  struct Callbacks {
    // Once: where the job is, or why nobody answers, with its last words.
    absl::AnyInvocable<void(absl::StatusOr<JobAddress>)> ready;
    // At most once, after `ready` with an address: it ended, not being told to.
    absl::AnyInvocable<void(ExitStatus)> ended;
    // Each line that it logs.
    absl::AnyInvocable<void(const std::string&)> log;
  };

  PrivateServer(runtime::Loop& loop, Guardian& guardian, PrivateServerOptions options,
                Callbacks callbacks);

  // Once. `ready` follows, perhaps at once: DEADLINE_EXCEEDED after the start time-out, UNAVAILABLE
  // when the server ends before, or the error of the folder's watch or of Process::Start.
  void Start();

  // Calls `done` when the server has ended, by SIGTERM or by SIGKILL after the stop time-out; at
  // once when there is none. Calls neither `ready` nor `ended` from then on.
  void Stop(absl::AnyInvocable<void()> done);

  // Of the server, while it has not been reaped; else 0.
  pid_t pid() const { return process_ != nullptr && process_->held() ? process_->pid() : 0; }

  // "; the last lines of its log: ...", or that it logged nothing.
  std::string LastWords() const { return log_.Text(); }

 private:
  struct Starting {};  // `ready` was not called
  struct Answered {};  // it was
  struct Stopping {
    absl::AnyInvocable<void()> done;
  };
  struct Ended {};  // or given up by `Stop`

  absl::Status StartProcess();
  void OnReadyFile(const std::string& text);
  void OnEnd(const ExitStatus& ending);
  void Answer(absl::StatusOr<JobAddress> address);
  // Calls what `Stop` was given, once.
  void FinishStop();

  runtime::Loop& loop_;
  Guardian& guardian_;
  const PrivateServerOptions options_;
  Callbacks callbacks_;
  LogTail log_{kServerLogLinesMax};
  std::variant<Starting, Answered, Stopping, Ended> state_;
  runtime::Timer timer_;                        // of the start, or of the stop
  std::unique_ptr<ReadyFileWatch> ready_file_;  // null: it is not watched
  std::unique_ptr<ServerProcess> process_;      // null: it did not start
};

}  // namespace lockstep::launch

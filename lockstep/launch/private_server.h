// The server that `lockstep run` starts for itself when it is given none.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "asio/posix/stream_descriptor.hpp"
#include "lockstep/launch/environment.h"
#include "lockstep/launch/guardian.h"
#include "lockstep/launch/output_pipe.h"
#include "lockstep/launch/process.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::launch {

// What is kept of the server's log, to be shown when it fails: `server_log_lines_max`.
inline constexpr size_t kServerLogLinesMax = 20;

struct PrivateServerOptions {
  Command command;  // of lockstep-server, but for the ready file
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

// What the ready file says about `job`, or why it cannot be used.
absl::StatusOr<JobAddress> ParseReadyFile(const std::string& text, const std::string& job);

// Starts the server, waits until it answers, and stops it.
//
// Threads: loop-confined. Destroy it when the loop has stopped. `loop` and `guardian` must outlive
// it.
class PrivateServer {
 public:
  struct Callbacks {
    // Once: where the job is, or why there is no server, with its last words.
    absl::AnyInvocable<void(absl::StatusOr<JobAddress>)> ready;
    // At most once, after `ready` with an address: it ended, not being told to.
    absl::AnyInvocable<void(Ending)> ended;
    // Each line that it logs.
    absl::AnyInvocable<void(const std::string&)> log;
  };

  PrivateServer(runtime::Loop& loop, Guardian& guardian, PrivateServerOptions options,
                Callbacks callbacks);
  ~PrivateServer();

  void Start();

  // Calls `done` when the server has ended, by SIGTERM or by SIGKILL after the stop time-out; at
  // once when there is none.
  void Stop(absl::AnyInvocable<void()> done);

  // Of the server, while it has not been reaped; else 0.
  pid_t pid() const { return process_ != nullptr && process_->held() ? process_->pid() : 0; }

  // "last lines of its log: ...", or nothing when it logged nothing.
  std::string LastWords() const;

 private:
  absl::Status StartProcess();
  absl::Status WatchFolder();
  void WaitForFolder();
  void ReadReadyFile();
  void OnProcessEnded();
  void OnLogLines(const std::string& lines);
  void BecomeReady(absl::StatusOr<JobAddress> address);

  runtime::Loop& loop_;
  Guardian& guardian_;
  const PrivateServerOptions options_;
  Callbacks callbacks_;
  runtime::Timer timer_;
  std::unique_ptr<Process> process_;
  std::optional<asio::posix::stream_descriptor> process_end_;
  std::optional<asio::posix::stream_descriptor> folder_changes_;  // inotify
  std::unique_ptr<OutputPipe> output_;
  std::unique_ptr<OutputPipe> errors_;
  std::deque<std::string> log_;
  bool ready_told_ = false;
  bool ended_ = false;
  absl::AnyInvocable<void()> stopped_;  // set when asked to stop
};

}  // namespace lockstep::launch

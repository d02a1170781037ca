// What a run starts beside its processes: its own server, or the agent of its host.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "lockstep/launch/environment.h"
#include "lockstep/launch/guardian.h"
#include "lockstep/launch/private_server.h"
#include "lockstep/launch/supervisor_events.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::cli {

// One of the two at most: an agent stands between the processes and somebody else's server.
//
// Threads: loop-confined. Ownership: `loop` and `guardian` outlive it.
class OwnPrograms {
 public:
  struct Callbacks {
    // It ended, not being told to, after it was ready; with its last words.
    std::function<void(const launch::ServerEnded&, const std::string& last_words)> ended;
    std::function<void(const std::string& line)> log;  // where the options say so
  };
  // Where the job's clients on this host call; or an error as PrivateServer's `ready`.
  using Ready = std::function<void(absl::StatusOr<launch::JobAddress>)>;

  OwnPrograms(runtime::Loop& loop, launch::Guardian& guardian, Callbacks callbacks)
      : loop_(loop), guardian_(guardian), callbacks_(std::move(callbacks)) {}

  void StartServer(const launch::PrivateServerOptions& options, Ready ready);
  // `server`: the one that the agent passes calls on to. `fences`: others may take the place of the
  // processes here when it has ended, however it did.
  void StartAgent(launch::PrivateServerOptions options, const launch::JobAddress& server,
                  bool fences, Ready ready);

  // Calls `done` when what was started has ended; at once when nothing was.
  void Stop(std::function<void()> done);

  bool has_server() const { return is_server_; }
  // Of what was started, until it is reaped; else 0.
  pid_t pid() const { return program_ == nullptr ? 0 : program_->pid(); }

 private:
  void Start(const launch::PrivateServerOptions& options, const char* what, Ready ready);

  runtime::Loop& loop_;
  launch::Guardian& guardian_;
  const Callbacks callbacks_;
  std::unique_ptr<launch::PrivateServer> program_;
  bool is_server_ = false;
  bool fences_ = false;
};

}  // namespace lockstep::cli

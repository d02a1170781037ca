// A process that serves `lockstep run`: its output is a log, and its end an event.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "asio/posix/stream_descriptor.hpp"
#include "lockstep/launch/exit_status.h"
#include "lockstep/launch/guardian.h"
#include "lockstep/launch/output_pipe.h"
#include "lockstep/launch/process.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::launch {

// Owns the process, its pipes, and the wait for its end.
//
// Threads: loop-confined. Destroy it when the loop has stopped. Ownership: loop and guardian
// outlive it.
class ServerProcess {
 public:
  // On the loop.
  struct Callbacks {
    // Each line that it writes, "[LABEL] " before it.
    std::function<void(const std::string&)> log;
    // Once, when it has ended; all that it wrote has gone to `log` by then.
    std::function<void(const ExitStatus&)> ended;
  };

  // `label`: "server". The errors of Process::Start.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(
      runtime::Loop& loop, Guardian& guardian, const std::string& label, const Command& command,
      const std::vector<std::string>& environment, const InheritedSignals& signals,
      Callbacks callbacks);
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Names it even after its end; `held` says whether it is still its own.
  pid_t pid() const { return process_->pid(); }
  // It has not been reaped.
  bool held() const { return process_->held(); }
  // To its whole group.
  void Signal(int signal) const { process_->Signal(signal); }

 private:
  ServerProcess(runtime::Loop& loop, const std::string& label, std::unique_ptr<Process> process,
                Callbacks callbacks);
  std::unique_ptr<OutputPipe> LogFrom(runtime::Loop& loop, const std::string& label,
                                      runtime::UniqueFd fd);
  void TakeEnd();

  const std::unique_ptr<Process> process_;
  const Callbacks callbacks_;
  const std::unique_ptr<OutputPipe> output_;
  const std::unique_ptr<OutputPipe> errors_;
  asio::posix::stream_descriptor end_;  // the pidfd
};

}  // namespace lockstep::launch

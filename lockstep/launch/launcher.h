// Carries out what the supervisor decides, on real processes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "asio/posix/stream_descriptor.hpp"
#include "lockstep/launch/environment.h"
#include "lockstep/launch/guardian.h"
#include "lockstep/launch/output_pipe.h"
#include "lockstep/launch/process.h"
#include "lockstep/launch/supervisor.h"
#include "lockstep/runtime/loop.h"

namespace lockstep::launch {

// Processes of one run: `run_processes_max`. Each takes three descriptors.
inline constexpr int32_t kRunProcessesMax = 1024;

struct LauncherOptions {
  SupervisorOptions supervisor;
  Command command;
  Environment inherited;
  JobAddress address;
  std::string run_id;
  InheritedSignals signals;
  bool color_output = false;
  bool color_errors = false;
};

// What a launcher needs of the program around it. Called on the loop.
class LaunchHost {
 public:
  virtual ~LaunchHost() = default;
  // Whole lines for standard output or error. False: no more until `Launcher::Resume...`.
  virtual bool WriteOutput(std::string lines) = 0;
  virtual bool WriteErrors(std::string lines) = 0;
  // A sentence of our own.
  virtual void Say(std::string sentence) = 0;
  virtual void Report(const ProcessReport& report) = 0;
  // Answered by `Launcher::OnRootCause`, sooner or later; only with
  // SupervisorOptions::asks_root_cause.
  virtual void AskRootCause() {}
  // Answered by `Launcher::OnPreemptionChecked`.
  virtual void CheckPreemption() {}
  // A signal that is a notice to the job came; only with SupervisorOptions::notice_signals.
  virtual void NoticeSignal(int) {}
  // All processes have ended, and are about to be started again.
  virtual void Restarting() {}
  // Once, last.
  virtual void Finished(int exit_code) = 0;
};

// Starts the processes of a job and sees them through to their end.
//
// Threads: loop-confined. Destroy it when the loop has stopped. `loop`, `guardian` and `host` must
// outlive it.
class Launcher {
 public:
  Launcher(runtime::Loop& loop, Guardian& guardian, LaunchHost& host, LauncherOptions options);
  ~Launcher();

  void Start();

  // SIGCHLD came: somebody may have been stopped or continued.
  void OnChildSignal();
  // Somebody signalled us.
  void OnSignal(int signal);
  void OnServerEnded(Ending ending);
  void OnRootCause(std::optional<MemberIndex> member);
  void OnPreemption(const PreemptionTold& told);
  void OnHost(const HostTold& told);
  void OnPreemptionChecked(const std::optional<PreemptionTold>& told);

  void ResumeOutput();
  void ResumeErrors();

 private:
  struct Slot;

  bool StartOne(MemberIndex member);
  void WatchEnd(Slot& slot);
  void OnPipeEnd(Slot& slot);
  void Handle(const Event& event);
  void Apply(const Effects& effects);

  runtime::Loop& loop_;
  Guardian& guardian_;
  LaunchHost& host_;
  const LauncherOptions options_;
  Supervisor supervisor_;
  runtime::Timer timer_;
  std::vector<std::unique_ptr<Slot>> slots_;    // by member index, as far as they were started
  std::vector<std::unique_ptr<Slot>> retired_;  // of starts before
};

}  // namespace lockstep::launch

// Carries out what the supervisor decides, on real processes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "asio/posix/stream_descriptor.hpp"
#include "lockstep/launch/environment.h"
#include "lockstep/launch/guardian.h"
#include "lockstep/launch/log_writer.h"
#include "lockstep/launch/output_pipe.h"
#include "lockstep/launch/output_routing.h"
#include "lockstep/launch/process.h"
#include "lockstep/launch/python_hook.h"
#include "lockstep/launch/supervisor.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::launch {

// Processes of one run: `run_processes_max`. Each takes three descriptors.
inline constexpr int32_t kRunProcessesMax = 1024;

struct LauncherOptions {
  SupervisorOptions supervisor;
  Command command;
  RunEnvironment environment;  // of the first attempt
  InheritedSignals signals;
  bool color_output = false;
  bool color_errors = false;
  bool prefix = true;  // say whose each line is
  OutputRouting routing;
  // Files are attempt_1/rank_0/stdout.log and stderr.log below it; empty: none.
  std::string log_folder;
};

// What a launcher needs of the program around it. Called on the loop.
class LaunchHost {
 public:
  virtual ~LaunchHost() = default;
  // Whole lines for standard output or error. False: no more until `Launcher::Resume...`.
  virtual bool WriteOutput(std::string lines) = 0;
  // As `WriteOutput`, with `Launcher::ResumeErrors`.
  virtual bool WriteErrors(std::string lines) = 0;
  // A sentence of our own.
  virtual void Say(std::string sentence) = 0;
  // What befell a process, for the server; in order, and not waited for.
  virtual void Report(const ProcessReport& report) = 0;
  // Calls `done` when the server has taken what was reported, soon in any case.
  virtual void WhenReported(std::function<void()> done) { done(); }
  // Answered by RootCauseTold, sooner or later; only with
  // SupervisorOptions::asks_root_cause.
  virtual void AskRootCause() {}
  // Somebody ends the run: says what the processes wait for, then calls `done`, soon in any case.
  virtual void TellWhy(std::function<void()> done) { done(); }
  // Answered by PreemptionChecked.
  virtual void CheckPreemption() {}
  // A signal that is a notice to the job came; only with SupervisorOptions::notice_signals.
  virtual void NoticeSignal(int) {}
  // All processes have ended, and are to be started again: answered by `Launcher::Begin`, sooner or
  // later. `restarts`: how many there were by then.
  virtual void Restarting(int32_t restarts) = 0;
  // What the other nodes should hear; only with several.
  virtual void TellFailure(const FailureTold&) {}
  // Answered by `Launcher::Begin` or RunEnded, sooner or later.
  virtual void AttemptOver(const launch::AttemptOver&) {}
  // Once, last.
  virtual void Finished(int exit_code, const RunResult& result) = 0;
};

// Starts the processes of a job and sees them through to their end.
//
// Threads: loop-confined. Destroy it when the loop has stopped. `loop`, `guardian` and `host` must
// outlive it.
class Launcher {
 public:
  Launcher(runtime::Loop& loop, Guardian& guardian, LaunchHost& host, LauncherOptions options);
  ~Launcher();

  // Begins the first attempt, in the environment of the options.
  void Start();
  // Begins the next attempt; `failures`: see AttemptBegins.
  void Begin(RunEnvironment environment, std::optional<int32_t> failures = std::nullopt);

  // Whether `pid` is a process of ours that has not been released.
  bool Holds(pid_t pid) const;

  // What each of the current processes has written last, by member.
  std::map<int32_t, std::vector<std::string>> LastLinesOfAll() const;

  // SIGCHLD came: somebody may have been stopped or continued.
  void OnChildSignal();
  // The hook of a process told of an exception; of a process that is not ours it is nothing.
  void OnException(const RaisedException& raised);
  // Anything else that the program around it hears of: signals, the server, the other nodes.
  void Handle(const Event& event);

  // `LaunchHost::WriteOutput` said false before, and there is room again.
  void ResumeOutput();
  // The same for `WriteErrors`.
  void ResumeErrors();

  // Calls `done` on some thread when the files have all that was written so far.
  void FlushLogs(absl::AnyInvocable<void()> done);

 private:
  struct Slot;

  void StartAll();
  // `restarts`: of it alone.
  bool StartOne(MemberIndex member, int32_t restarts);
  std::unique_ptr<OutputPipe> MakePipe(Slot& slot, Streams stream, runtime::UniqueFd fd);
  // Null: it cannot be, which was said.
  LogWriter::File OpenLog(MemberIndex member, const char* name);
  std::unique_ptr<Slot>& SlotOf(MemberIndex member);
  void Retire(std::unique_ptr<Slot>& slot);
  void WatchEnd(Slot& slot);
  void OnPipeEnd(Slot& slot);
  void Apply(const Effects& effects);
  // A signal to whoever has the member's place now: it may come late, when another has it.
  struct Addressed {
    SignalGroup signal;
    pid_t pid = 0;
  };
  std::vector<Addressed> Address(const std::vector<SignalGroup>& signals) const;
  void Send(const std::vector<Addressed>& signals);
  // The process at the member's place, if there is one that can be signalled.
  const Process* HeldAt(MemberIndex member) const;

  runtime::Loop& loop_;
  Guardian& guardian_;
  LaunchHost& host_;
  const LauncherOptions options_;
  Supervisor supervisor_;
  runtime::Timer timer_;
  RunEnvironment environment_;
  std::unique_ptr<LogWriter> logs_;             // null: no files
  std::vector<std::unique_ptr<Slot>> slots_;    // by local rank; null: not started
  std::vector<std::unique_ptr<Slot>> retired_;  // of starts before
  bool finished_ = false;
};

}  // namespace lockstep::launch

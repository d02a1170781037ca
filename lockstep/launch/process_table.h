// The processes of one attempt: which of them run, how they ended, and what they are called. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/launch/supervisor_effects.h"
#include "lockstep/launch/supervisor_events.h"

namespace lockstep::launch {

// What is known of one process.
struct ProcessRecord {
  // An ended process may have left helpers that still write; a released one has not.
  enum class State { kNotStarted, kRunning, kEnded, kReleased };
  struct Stop {
    Time since;
    int signal = 0;
  };
  // An exception that nobody caught: its text is `error`.
  struct Raise {
    Time at;
    bool reported = false;
  };

  // Also while it is stopped by a signal.
  bool running() const { return state == State::kRunning; }
  // It has ended with exit code 0, whether it was told to end or not.
  bool EndedWell() const;
  // It failed, and not by a signal that we sent.
  bool FailedByItself() const;
  // It ended by itself, with 0, while the others still needed it, as far as anybody can see.
  bool LeftEarly() const { return EndedWell() && !before_failure.empty(); }
  // When its exception counts that is not reported yet; infinite: there is none.
  Time RaiseCountsAt(absl::Duration window) const;

  MemberIndex member;
  State state = State::kNotStarted;
  int64_t pid = 0;
  Time started;
  Time ended;
  std::optional<Stop> stopped;
  bool output_ended = false;
  ExitStatus ending;
  int sent = 0;           // the last signal that we sent by our own decision
  bool given_up = false;  // it did not even end by SIGKILL
  int32_t restarts = 0;   // of it alone
  bool again = false;     // it is started again once it is released
  std::vector<std::string> last_lines;
  std::string error;
  std::optional<Raise> raised;
  Time end_by = Time::Infinite();  // then it is signalled: it alone is started again
  // What it had done before the first failure that others may have failed by, to go behind what is
  // said of its end; empty: nothing that is seen.
  std::string before_failure;
};

// Owns the records of an attempt's processes and the rules of their states: not started, running,
// ended, released. What a change means to the world goes into the effects.
//
// Bounds: as many records as the attempt has processes here. Threads: thread-compatible.
class ProcessTable {
 public:
  ProcessTable(std::string role, int32_t first, int32_t size);

  const std::vector<ProcessRecord>& all() const { return processes_; }
  int32_t first() const { return first_; }  // member
  int32_t size() const { return static_cast<int32_t>(processes_.size()); }
  // False: it belongs to another node, or to no node.
  bool Contains(MemberIndex member) const;
  // `member` has to be one of ours.
  const ProcessRecord& At(MemberIndex member) const;
  // "task/1 (pid 7)".
  std::string Name(const ProcessRecord& process) const;
  // "task/1 (pid 7) was killed by SIGABRT after 3.2 s", with its error if it told one; or that it
  // was not started.
  std::string EndingText(const ProcessRecord& process) const;

  int CountRunning() const;
  // None ever was, in this attempt.
  bool NoneStarted() const;
  // Each was released; `start_failed`: or will never be started.
  bool AllReleased(bool start_failed) const;
  // The first that ended with exit code 0; null: none has.
  const ProcessRecord* FirstEndedWell() const;
  // When an exception counts, an ended process has left helpers for so long, or one that is to end
  // alone is signalled.
  Time NextDeadline(absl::Duration raised_window, absl::Duration helper_grace) const;

  // What happened to a process that is not said to run changes nothing, as the exception of a
  // process before, or a second one.
  void Take(Time now, const ProcessStarted& event, Effects& out);
  // By a signal such as SIGSTOP: it still runs, and may go on.
  void Take(Time now, const ProcessStopped& event, Effects& out);
  void Take(Time now, const ProcessContinued& event, Effects& out);
  // Does not report it: that is for `ReportRaised`, when it counts.
  void Take(Time now, const ExceptionRaised& event);
  // Does not report it yet. False: it did not run.
  bool Take(Time now, const ProcessEnded& event);
  // No process holds its pipes any more, helpers included.
  void EndOutput(MemberIndex member) { Find(member).output_ended = true; }
  // Reports the exception of a process that raised one, once.
  void ReportRaised(MemberIndex member, Effects& out);

  // To each that runs. Remembered, so that an end by this signal counts as no failure of its own.
  void SignalRunning(int signal, Effects& out);
  // Reports that those that run will end since we tell them to.
  void ReportEnding(Effects& out) const;
  // Those that run did not end by SIGKILL: releases them. Returns whether there was any.
  bool GiveUpRunning(Time now, absl::Duration kill_grace, Effects& out);

  // Plans that it is started again, alone, once it is released.
  void PlanRestart(MemberIndex member);
  // It is signalled at `at`, unless it has ended by then.
  void EndBy(MemberIndex member, Time at) { Find(member).end_by = at; }
  // SIGTERM, and after `terminate_grace` SIGKILL, once its time is over.
  void EndIfOverdue(Time now, MemberIndex member, absl::Duration terminate_grace, Effects& out);
  // `may_start`: if it was planned to start it again, it is. Otherwise the plan is dropped.
  void Release(MemberIndex member, bool may_start, Effects& out);
  // Does not wait any longer for what ended processes left behind, and starts none of them again.
  void ReleaseEnded(Effects& out);
  // Notes of each process that had ended well or was stopped that others may have failed by it;
  // `by_kill`: the first failure needs no such explanation.
  void LookBack(Time now, bool by_kill);

 private:
  ProcessRecord& Find(MemberIndex member);

  std::string role_;
  int32_t first_;
  std::vector<ProcessRecord> processes_;
};

}  // namespace lockstep::launch

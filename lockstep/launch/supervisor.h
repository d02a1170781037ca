// Decides for `lockstep run`: whom to signal when, what to say, how to end. Pure.
//
// Fed by launch/launcher, which owns the processes, the clock and the terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/launch/ask_once.h"
#include "lockstep/launch/early_ends.h"
#include "lockstep/launch/escalation.h"
#include "lockstep/launch/failure_ledger.h"
#include "lockstep/launch/node_server_loss.h"
#include "lockstep/launch/preempted_run.h"
#include "lockstep/launch/process_table.h"
#include "lockstep/launch/restart_policy.h"
#include "lockstep/launch/run_history.h"
#include "lockstep/launch/server_loss.h"
#include "lockstep/launch/supervisor_effects.h"
#include "lockstep/launch/supervisor_events.h"
#include "lockstep/launch/supervisor_options.h"
#include "lockstep/launch/user_signals.h"

namespace lockstep::launch {

// Sees N processes through to their end.
//
// A process is running, then ended (its helpers may still write), then released (process_table.h).
// The first failure (failure_ledger.h) starts an escalation (escalation.h): the grace, SIGTERM,
// SIGKILL, giving up. A forwarded signal starts none, since for a training program SIGTERM can be
// the notice to save (user_signals.h). The exit code is that of the first process that failed.
//
// A second SIGINT kills, and the run was interrupted then: what fails since the first one was told
// to, so it is no failure that is named.
//
// While restarts are left (restart_policy.h) a failure ends an attempt, not the run: the others are
// stopped, and when all have ended the next attempt is asked for. With other nodes the attempt ends
// when any of them says so, and the run when all are done.
//
// An ending that a preemption explains is no failure (preempted_run.h): the others may save before
// the escalation begins, and what the processes ended with is what we end with, or they are started
// again.
//
// Invariants: each start is released exactly once; every escalation ends; a deadline that has
// passed is not due again; after `exit_code` there are no more effects. Threads: thread-compatible.
// Time: `now` must not go back between calls.
class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options);
  Supervisor(const Supervisor&) = delete;  // its parts refer to its options
  Supervisor& operator=(const Supervisor&) = delete;

  // Returns what is to be done; nothing once the run has ended.
  Effects Handle(Time now, const Event& event);

  // When to call `Handle(now, DeadlineReached{})`; infinite when nothing is pending.
  Time NextDeadline() const;

 private:
  // Everything that ends with an attempt.
  struct Attempt {
    Attempt(const SupervisorOptions& options, Time now, int32_t first, int32_t size);

    Time began;
    ProcessTable processes;
    Escalation escalation;
    FailureLedger failure;
    EarlyEnds early_ends;
    AskOnce preemption_check;
    bool start_failed = false;
    std::optional<AttemptCalledOff> called_off;  // by the other nodes
  };

  // An attempt is to begin, or is on: also when all have ended, and the coordinator is asked.
  struct Running {};
  // All have ended, and are started again at `until`: after a failure.
  struct BackingOff {
    Time until;
  };
  // Likewise after a preemption, if the host outlives that.
  struct AwaitingHost {
    Time until;
  };
  // The next attempt, or the end, is waited for.
  struct Between {
    struct Over {
      Time since;
      int exit_code = 0;
    };
    std::optional<Over> over;  // with other nodes: how the last attempt ended here
  };
  struct Finished {};
  using Phase = std::variant<Running, BackingOff, AwaitingHost, Between, Finished>;

  void On(Time now, const ProcessStarted& event, Effects& out);
  void On(Time now, const StartFailed& event, Effects& out);
  void On(Time now, const ProcessEnded& event, Effects& out);
  void On(Time now, const ExceptionRaised& event, Effects& out);
  void On(Time now, const ProcessStopped& event, Effects& out);
  void On(Time now, const ProcessContinued& event, Effects& out);
  void On(Time now, const OutputEnded& event, Effects& out);
  void On(Time now, const SignalReceived& event, Effects& out);
  void On(Time now, const ServerEnded& event, Effects& out);
  void On(Time now, const ServerLost& event, Effects& out);
  void On(Time now, const ServerFound& event, Effects& out);
  void On(Time now, const RootCauseTold& event, Effects& out);
  void On(Time now, const PreemptionTold& event, Effects& out);
  void On(Time now, const PreemptionChecked& event, Effects& out);
  void On(Time now, const HostTold& event, Effects& out);
  void On(Time now, const AttemptBegins& event, Effects& out);
  void On(Time now, const AttemptCalledOff& event, Effects& out);
  void On(Time now, const RunEnded& event, Effects& out);
  void On(Time now, const NodeServerLost& event, Effects& out);
  void On(Time now, const NodeServerFound& event, Effects& out);
  void On(Time now, const DeadlineReached& event, Effects& out);

  // ---- Failures.

  // It fails now, by its end or by an exception; `exit_code` is what that gives the run.
  void Fail(Time now, const ProcessRecord& process, int exit_code, std::string sentence,
            Effects& out);
  // The first failure begins the escalation; any other stands in the table of ends only.
  void FailFirst(Time now, FailureLedger::Failure failure, Effects& out);
  // An exception counts, though its process has not ended: exit handlers may wait for the others
  // for minutes, so the escalation begins here.
  void TellRaised(Time now, const ProcessRecord& process, Effects& out);
  // The escalation begins when the preemption leaves those no time that are left.
  void SettlePreempted();
  // From the end of a process until its helpers are killed.
  absl::Duration HelperGrace() const;

  // ---- Signals to us.

  // Until when a step has to be known, else the signals that were taken as notices are passed on.
  Time HeedUntil() const;
  void PassOnNotices(Effects& out);
  void KillInterrupted(Time now, Time first_interrupt, Effects& out);

  // ---- What follows an attempt.

  // Whether a failure now is answered by starting all processes again.
  bool MayRestart() const;
  // Whether one that failed may be started again alone.
  bool MayStartAlone() const;
  // Whether a failure now concerns the other nodes.
  bool TellsOthers() const;
  // Another attempt would only fail as the last ones did.
  bool GivesUp(Time now) const;
  // No process runs or has run in this attempt: the next one, or the end, is waited for.
  bool Waits() const;
  // When nobody is waited for any more who would say what comes after an attempt.
  Time NodesGivenUpAt() const;
  // After each event: what follows if all have ended.
  void Settle(Time now, Effects& out);
  // All have ended. Whether the coordinator's word on that is waited for.
  bool AwaitsAnswer(Time now, Effects& out);
  // What is to be waited for before the next attempt; `Running`: none follows from here.
  Phase PlanNext(Time now, Effects& out);
  void RestartFailed(Time now, Effects& out);
  void RestartPreempted(Time now, Effects& out);
  // Of `size` processes from `first` on. Keeps what belongs to the run.
  void ResetAttempt(Time now, int32_t first, int32_t size);
  void EndAttempt(Time now, Effects& out);
  // `sentence` empty: what ours ended with says it.
  void Finish(Time now, int exit_code, std::string sentence, Effects& out);

  const SupervisorOptions options_;
  std::optional<Time> began_;  // the run
  Phase phase_;
  Attempt attempt_;  // the current or last one
  PreemptedRun preempted_;
  RestartPolicy restarts_;
  RunHistory history_;
  ServerLoss server_;
  NodeServerLoss node_server_;
  UserSignals signals_;
};

}  // namespace lockstep::launch

// Decides for `lockstep run`: whom to signal when, what to say, how to end. Pure.
//
// Fed by launch/launcher, which owns the processes, the clock and the terminal.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/launch/exit_code.h"
#include "lockstep/launch/preempted_run.h"

namespace lockstep::launch {

// How a process ended: by a signal when `signal` is not zero, else by itself.
struct Ending {
  int exit_code = 0;
  int signal = 0;

  bool succeeded() const { return exit_code == 0 && signal == 0; }
  friend bool operator==(const Ending&, const Ending&) = default;
};

// "ended with exit code 3", "was killed by SIGKILL".
std::string Describe(const Ending& ending);

// As a shell gives it: the exit code, or 128 and the signal.
int ExitCode(const Ending& ending);

// "12.3 s", "4 min 2 s": what a person wants to know of a duration, and no more.
std::string Spell(absl::Duration duration);

// "SIGTERM"; "signal 42" for those without a name.
std::string SignalName(int signal);

// ---- What can happen.

struct ProcessStarted {
  MemberIndex member;
  int64_t pid = 0;
};
// The process could not be started, and no further one will be. `exit_code` is what to end with.
struct StartFailed {
  MemberIndex member;
  std::string why;
  int exit_code = 0;
};
struct ProcessEnded {
  MemberIndex member;
  Ending ending;
  std::vector<std::string> last_lines = {};  // that it wrote, for people
  std::string error = {};                    // what it says of itself; empty: nothing
};
// It told of an exception that nobody caught. It has not ended yet, and exit handlers may hold it.
struct ExceptionRaised {
  MemberIndex member;
  int64_t pid = 0;
  std::string text;  // "ValueError: bad sample, train.py:24 in load"
};
struct ProcessStopped {
  MemberIndex member;
  int signal = 0;
};
struct ProcessContinued {
  MemberIndex member;
};
// Nobody holds the process's standard output and error any more.
struct OutputEnded {
  MemberIndex member;
};
// Somebody signalled `lockstep run`.
struct SignalReceived {
  int signal = 0;
};
// The server that `lockstep run` started ended although nobody asked it to.
struct ServerEnded {
  Ending ending;
};
// The link to a server of somebody else's broke. It may come back, and another attempt may find it.
struct ServerLost {
  std::string why;
};
// There is a link to it again.
struct ServerFound {};
// What the coordinator says about whose failure the others followed from; nothing if it has no word
// on that.
struct RootCauseTold {
  std::optional<MemberIndex> member;
  // Whether anybody has come into the job's attempt; absent: it does not say.
  std::optional<bool> joined = std::nullopt;
};
// What the coordinator says about the job's preemption now; nothing if it does not answer.
struct PreemptionChecked {
  std::optional<PreemptionTold> told;
};
// The host of the launcher is ready for the next attempt, of these members: `Effects::restart` has
// been asked for, or nothing was started yet.
struct AttemptBegins {
  int32_t first = 0;
  int32_t size = 1;
  // Restarts that failures of any node have used up; absent: those of this one alone count.
  std::optional<int32_t> failures = std::nullopt;
  // Its number among those of the job; absent: those of the run alone are counted.
  std::optional<int64_t> number = std::nullopt;
};
// A process of another node failed, or a node is gone or has come: the attempt is over, and another
// one follows or not. Only where there are several nodes, as the next.
struct AttemptCalledOff {
  std::string why;
  bool another = false;
};
// All nodes are done.
struct RunEnded {
  int exit_code = 0;
  std::string why;
};
// The server at which the nodes meet is not reached, and is reached again.
struct CrewLost {
  std::string why;
};
struct CrewFound {};
struct DeadlineReached {};

// PreemptionTold (preempted_run.h) is one as well.
using Event =
    std::variant<ProcessStarted, StartFailed, ProcessEnded, ExceptionRaised, ProcessStopped,
                 ProcessContinued, OutputEnded, SignalReceived, ServerEnded, ServerLost,
                 ServerFound, RootCauseTold, PreemptionTold, PreemptionChecked, HostTold,
                 AttemptBegins, AttemptCalledOff, RunEnded, CrewLost, CrewFound, DeadlineReached>;

// ---- What is to be done, in the order of the fields.

// What the coordinator is told about a process.
struct ProcessReport {
  // kEnding: soon, by `error` or, where that is empty, since we tell it to.
  enum class Kind { kStarted, kEnded, kStopped, kContinued, kEnding };
  Kind kind = Kind::kStarted;
  MemberIndex member;
  int64_t pid = 0;
  Ending ending;  // with kEnded
  std::string error = {};

  friend bool operator==(const ProcessReport&, const ProcessReport&) = default;
};

// Send `signal` to everything in the process group of `member`.
struct SignalGroup {
  MemberIndex member;
  int signal = 0;

  friend bool operator==(const SignalGroup&, const SignalGroup&) = default;
};

// Start `member` once more, for the `restarts`th time.
struct StartAgain {
  MemberIndex member;
  int32_t restarts = 0;

  friend bool operator==(const StartAgain&, const StartAgain&) = default;
};

// The first failure of an attempt, for the other nodes.
struct FailureTold {
  std::optional<MemberIndex> member;
  std::string text;
  int exit_code = 0;
  std::string failure = {};  // how alone, without who and when
};

// How an attempt ended for the processes of this node.
struct AttemptOver {
  int exit_code = 0;
  bool again = false;     // they were preempted, and go on in another attempt
  std::string text = {};  // for the other nodes, where the exit code alone says too little

  friend bool operator==(const AttemptOver&, const AttemptOver&) = default;
};

// How a run ended, for programs.
struct RunResult {
  struct Process {
    int32_t member = 0;
    int64_t pid = 0;
    bool started = false;
    Ending ending;
    absl::Duration lasted;
    std::string error;
    std::vector<std::string> last_lines;
  };
  std::string outcome;  // "succeeded", "failed", "preempted", "interrupted", "signalled"
  std::string why;      // the sentence that a person reads last
  std::string cause;    // of a failure: what came first; empty: not known
  std::optional<int32_t> first_failed;  // member; absent when it was none
  int exit_code = 0;
  int32_t attempts = 0;
  absl::Duration lasted;
  std::vector<std::string> past;   // a sentence for each attempt before
  std::vector<Process> processes;  // of the last attempt
};

struct Effects {
  std::vector<ProcessReport> reports;
  std::vector<SignalGroup> signals;
  // Kill what is left of the group, stop reading its output, reap the process.
  std::vector<MemberIndex> releases;
  // For people, on standard error.
  std::vector<std::string> sentences;
  // Ask the coordinator whose failure came first: RootCauseTold.
  bool ask_root_cause = false;
  // Say what the others wait for: somebody ends the run, and may want to know why it hung.
  bool tell_why = false;
  // Ask the coordinator how the job's preemption stands: PreemptionChecked.
  bool check_preemption = false;
  // Tell the coordinator that this signal says that our processes will die.
  std::optional<int> notice_signal;
  // These were released, and are started again while the others go on.
  std::vector<StartAgain> starts;
  // Tell the other nodes. Only where there are several, as the next.
  std::optional<FailureTold> failure;
  // All of ours have ended and were released. Answered by AttemptBegins or RunEnded, sooner or
  // later.
  std::optional<AttemptOver> attempt_over;
  // All have ended and were released: prepare the attempt after so many restarts, then
  // AttemptBegins.
  std::optional<int32_t> restart;
  // All is over: end with this code.
  std::optional<int> exit_code;
  std::optional<RunResult> result;  // with it
};

// What to do when all processes have ended because the job was preempted.
enum class OnPreempt {
  kExit,     // end, too
  kRestart,  // start them again
  kWait,     // start them again when the deaths are over or withdrawn: we live, so the host does
};

// Who is started again when a process fails.
enum class RestartScope {
  kWorld,  // all processes of the job
  kNode,   // those of its node
  kRank,   // it alone
};

// How soon after a SIGINT another one kills. Not the grace, which may be shorter than anybody can
// press a key twice.
inline constexpr absl::Duration kSecondInterruptWindow = absl::Seconds(10);

struct SupervisorOptions {
  int32_t first = 0;  // member
  int32_t size = 1;
  std::string role = "task";
  // From the first failure until the others get SIGTERM: they learn of it from the coordinator and
  // should end by themselves.
  absl::Duration grace = absl::Seconds(10);
  // How often failures are answered by starting processes again; with RestartScope::kRank, each.
  int32_t max_restarts = 0;
  RestartScope scope = RestartScope::kWorld;
  // From the second failure in a row within `quick_failure` on, before all are started again:
  // doubled each time, up to the second.
  absl::Duration restart_backoff = absl::Seconds(1);
  absl::Duration restart_backoff_max = absl::Minutes(1);
  absl::Duration quick_failure = absl::Seconds(10);
  // After so many failures in a row of the same text, each within `early_failure` of the start and
  // before anybody joined, nobody is started again.
  int32_t same_failures_max = 3;
  absl::Duration early_failure = absl::Seconds(30);
  // From SIGTERM until SIGKILL for processes that are stopped to be started again. They are no
  // longer needed, so they get no grace before it but `settle`.
  absl::Duration stop_grace = absl::Seconds(5);
  // From the first failure until that SIGTERM: who failed because of another may be the quicker to
  // end, and what the other one ended with tells more. Nobody is killed by SIGKILL because of
  // another: after that one there is nothing to wait for.
  absl::Duration settle = absl::Milliseconds(200);
  // Whether there are other nodes, which hear of failures and have a say in what follows.
  bool alone = true;
  // From an exception that a process tells of until it counts, unless it or another ends before:
  // who loses a peer may be quicker to raise than we are to see the peer's end.
  absl::Duration raised_window = absl::Milliseconds(250);
  // From then until SIGTERM at the earliest, unless it ends before:
  // it is about to print it.
  absl::Duration raised_settle = absl::Seconds(1);
  // From SIGTERM until SIGKILL.
  absl::Duration terminate_grace = absl::Seconds(5);
  // From SIGKILL until a process is given up, which only one stuck in the kernel needs.
  absl::Duration kill_grace = absl::Seconds(10);
  // From the end of a process until the helpers it left behind are killed, when they still hold its
  // output. Python's resource tracker, say, cleans up in that time.
  absl::Duration helper_grace = absl::Seconds(2);
  OnPreempt on_preempt = OnPreempt::kExit;
  // Of a run that was preempted, and saved where anybody could.
  int preempt_exit_code = kExitPreempted;
  // What fails so soon after the server ended follows from that.
  absl::Duration server_explains = absl::Minutes(1);
  // Who lives so long after the server was found again does not die of its absence. Stock JAX dies
  // within a second.
  absl::Duration server_survived = absl::Seconds(3);
  // Of these signals the first is a notice to the job, and is not passed on, unless no step is
  // known `heed_timeout` later.
  std::vector<int> notice_signals;
  absl::Duration heed_timeout = absl::Seconds(10);
  // From a SIGTERM, or a signal that was a notice, until the processes that are left get SIGTERM
  // from us. By default whoever sent it kills.
  absl::Duration term_grace = absl::InfiniteDuration();
  // From the first end of a process with exit code 0 until it is told that others go on: they may
  // wait for it. Those that are done end within less of each other, and a framework waits longer.
  absl::Duration tell_ended = absl::Seconds(10);
  // How long a run of several nodes waits for a server that is not reached, once nothing runs here.
  absl::Duration crew_timeout = absl::Minutes(10);
  // Whether somebody can answer `ask_root_cause`, and how long that may take.
  bool asks_root_cause = false;
  absl::Duration root_cause_timeout = absl::Seconds(2);
  // Likewise of `check_preemption`. Asked before it is decided that nobody is started again, since
  // processes may end before we have heard why.
  absl::Duration check_timeout = absl::Seconds(5);
};

// Sees N processes through to their end.
//
// A process is running, then ended (its helpers may still write), then released. The first failure
// starts an escalation: the grace, SIGTERM, SIGKILL, giving up. A forwarded signal starts none,
// since for a training program SIGTERM can be the notice to save. The exit code is that of the
// first process that failed. Where several did, that is not told by who ended first: others may be
// quicker to end over an error than the one who had it. So the coordinator is asked.
//
// A second SIGINT kills, and the run was interrupted then: what fails since the first one was told
// to, so it is no failure that is named.
//
// While restarts are left a failure ends an attempt, not the run: the others are stopped, and when
// all have ended the next attempt is asked for. With other nodes the attempt ends when any of them
// says so, and the run when all are done.
//
// An ending that a preemption explains is no failure (preempted_run.h): the others may save before
// the escalation begins, and what the processes ended with is what we end with, or they are started
// again.
//
// Invariants: each start is released exactly once; every escalation ends; after `exit_code` there
// are no more effects.
// Threads: thread-compatible. Time: `now` must not go back between calls.
class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options);

  Effects Handle(Time now, const Event& event);

  // When to call `Handle(now, DeadlineReached{})`; infinite when nothing is pending.
  Time NextDeadline() const;

 private:
  enum class ProcessState { kNotStarted, kRunning, kEnded, kReleased };
  struct Process {
    ProcessState state = ProcessState::kNotStarted;
    int64_t pid = 0;
    Time started;
    Time ended;
    std::optional<Time> stopped_since;
    int stop_signal = 0;
    bool output_ended = false;
    Ending ending;
    // The last signal that we sent by our own decision.
    int sent = 0;
    bool given_up = false;
    int32_t restarts = 0;  // of it alone
    bool again = false;    // it is started again once it is released
    std::vector<std::string> last_lines;
    std::string error;
    std::optional<Time> raised;  // when it told that the error is an exception
    bool raise_told = false;
    Time end_by = Time::Infinite();  // then it is signalled: it alone is started again
    // What it had done before the first failure that others may have failed by, to go behind what
    // is said of its end; empty: nothing that is seen.
    std::string before_failure;
  };
  struct TakenSignal {
    Time at;
    bool passed_on = false;
  };
  // How far the escalation has come. What comes next comes at `escalate_at_`.
  enum class Escalation { kNone, kGrace, kTerminated, kKilled, kGivenUp };

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
  void On(Time now, const CrewLost& event, Effects& out);
  void On(Time now, const CrewFound& event, Effects& out);
  void On(Time now, const DeadlineReached& event, Effects& out);
  // When nobody is waited for any more who would say what comes after an attempt.
  Time CrewGivenUpAt() const;
  void GiveUpCrew(Time now, Effects& out);

  static bool EndedWell(const Process& process);
  static bool FailedByItself(const Process& process);
  // From the first failure until the others are stopped.
  absl::Duration Settle();
  // Whether the coordinator's word on who failed first is still waited for.
  bool AwaitsRootCause(Time now, Effects& out);
  Process& At(MemberIndex member);
  MemberIndex Member(size_t at) const { return MemberIndex(first_ + static_cast<int32_t>(at)); }
  // Of one of `processes_`.
  MemberIndex MemberOf(const Process& process) const {
    return Member(static_cast<size_t>(&process - processes_.data()));
  }
  std::string Name(MemberIndex member, const Process& process) const;
  int CountRunning() const;
  void FailFirst(Time now, int exit_code, std::string sentence, Effects& out);
  // Notes what the processes had done before the first failure, and says who had ended well.
  void LookBack(Time now, Effects& out);
  // The first that ended with exit code 0; null: none has.
  const Process* FirstEndedWell() const;
  // When it is told that it did while others go on.
  Time TellEndedAt() const;
  void TellEnded(Time now, Effects& out);
  // When the exception of a process is to be told; infinite: there is none, or it was.
  Time TellRaisedAt(const Process& process) const;
  void TellRaised(Time now, Process& process, Effects& out);
  void ReportRaised(Process& process, Effects& out);
  // Tells of exceptions, and signals those that did not end by theirs.
  void EndRaised(Time now, Effects& out);
  // Whether the end or loss of the server explains that the process fails now.
  bool ServerExplains(Time now, const Process& process) const;
  // How many attempts before failed in a row with the text of this one.
  int32_t SameFailures() const;
  // Another attempt would only fail as the last ones did.
  bool GivesUp(Time now) const;
  bool FailedEarly(Time now) const;
  std::string FailureText() const;
  // Whether the next attempt has to wait for a while.
  bool BacksOff(Time now, Effects& out);
  RunResult ResultOf(Time now, int exit_code, const std::string& sentence) const;
  void Escalate(Time now, Escalation to, Effects& out);
  void SignalRunning(int signal, Effects& out);
  void GiveUp(Time now, Effects& out);
  void Release(MemberIndex member, Process& process, Effects& out);
  void ReleaseEnded(Effects& out);
  // The escalation begins when the preemption leaves those no time that are left.
  void SettlePreempted(Time now, Effects& out);
  // Until when a step has to be known, else the signals that were taken as notices are passed on.
  Time HeedUntil() const;
  void PassOnTaken(Effects& out);
  void KillInterrupted(Time now, Time first_interrupt, Effects& out);
  bool TakeAsNotice(Time now, int signal, Effects& out);
  void FinishIfAllReleased(Time now, Effects& out);
  bool WasPreempted(Time now) const;
  bool AwaitsCheck(Time now, Effects& out);
  // False: it is not to be.
  bool StartPreemptedAgain(Time now, Effects& out);
  // Whether a failure now is answered by starting all processes again.
  bool MayRestart() const;
  // Likewise by starting it alone.
  bool MayRestart(const Process& process) const;
  bool MayStartAlone() const;
  // No process runs or has run in this attempt: the next one, or the end, is waited for.
  bool Waits() const;
  // From the end of a process until its helpers are killed.
  absl::Duration HelperGrace() const;
  // Whether a failure now concerns the other nodes.
  bool TellsOthers() const;
  bool RestartFailed(Time now, Effects& out);
  void ForgetAttempt();
  std::string AttemptText(int32_t restarts) const;
  int ExitCodeOfAttempt(Time now) const;
  std::string SentenceOfEnd(Time now, int exit_code) const;
  // What the other nodes hear of an end that is no failure.
  std::string TextForOthers(Time now) const;
  void Finish(Time now, int exit_code, std::string sentence, Effects& out);
  // "task/1 (pid 7) was killed by SIGABRT after 3.2 s", with its error if it told one.
  std::string EndingText(MemberIndex member, const Process& process) const;
  std::string Verdict(MemberIndex member, const Process& process) const;

  const SupervisorOptions options_;
  int32_t first_;
  std::vector<Process> processes_;
  std::optional<Time> began_;          // the run
  std::optional<Time> attempt_began_;  // the current or last one
  int64_t first_number_ = 1;           // of the job's attempts, that without restarts
  int32_t restarts_ = 0;               // of all, for whatever reason
  int32_t failures_ = 0;               // of those, by a failure
  bool between_ = false;               // no attempt is on: the next one, or the end, is waited for
  std::optional<int> attempt_exit_code_;  // of the last one that is over
  std::optional<Time> over_since_;
  std::optional<Time> crew_lost_;
  std::string crew_lost_why_;
  std::optional<std::string> called_off_;  // by the other nodes, with their reason
  bool another_follows_ = false;           // as they said
  std::optional<Time> server_ended_;
  std::optional<Time> server_lost_;         // likewise, or one that is not ours; last
  std::optional<Time> server_found_;        // again, since then
  std::string server_text_;                 // how
  std::string cause_;                       // what came first, where that was no process of ours
  std::vector<std::string> failure_texts_;  // of the attempts that failed, in a row
  std::optional<bool> joined_;              // somebody came into this attempt
  bool failed_early_ = false;               // the attempt that is over
  int32_t quick_failures_ = 0;              // in a row
  std::optional<Time> restart_at_;
  std::string lost_;                      // what a preemption lost that nobody saved before
  std::vector<std::string> past_;         // a sentence for each attempt that failed
  std::optional<int> first_failure_;      // the exit code it gives
  std::optional<Time> first_failure_at_;  // absent when a process could not be started
  std::string first_failure_text_;
  std::optional<MemberIndex> first_failed_;  // absent when it was not a process
  std::optional<Time> root_cause_until_;     // set: it was asked for
  bool root_cause_told_ = false;
  bool start_failed_ = false;
  bool told_ended_ = false;  // in this attempt, see `tell_ended`
  Escalation escalation_ = Escalation::kNone;
  Time escalate_at_ = Time::Infinite();
  Time escalate_meant_ = Time::Infinite();  // at which it would, but for `raised_settle`
  std::optional<Time> interrupted_;         // the last SIGINT
  bool killed_by_interrupt_ = false;
  PreemptedRun preempted_;
  std::optional<Time> first_preempted_;        // when the first process ended badly by it
  std::optional<Ending> first_preempted_end_;  // how
  std::optional<int> preempted_exit_code_;     // the first that a process gave by itself
  bool told_to_end_ = false;                   // by a signal
  std::optional<int> end_signal_;              // the first that did
  std::map<int, TakenSignal> signals_taken_;   // as notices
  std::optional<Time> check_until_;            // set: it was asked for
  bool checked_ = false;
  std::optional<Time> again_at_;  // all have ended, and are started again then
  bool finished_ = false;
};

}  // namespace lockstep::launch

#include "lockstep/launch/supervisor.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/launch/exit_code.h"
#include "lockstep/launch/run_verdict.h"

namespace lockstep::launch {
namespace {

// With which Python ends over an exception.
constexpr int kExitRaised = 1;

std::string Ordinal(int32_t number) {
  const char* const end = number % 100 / 10 == 1 ? "th"
                          : number % 10 == 1     ? "st"
                          : number % 10 == 2     ? "nd"
                          : number % 10 == 3     ? "rd"
                                                 : "th";
  return absl::StrCat(number, end);
}

std::string Others(int count) {
  return count == 1 ? "the other process" : absl::StrFormat("the other %d processes", count);
}

}  // namespace

Supervisor::Attempt::Attempt(const SupervisorOptions& options, Time now, int32_t first,
                             int32_t size)
    : began(now), processes(options.role, first, size), escalation(options) {}

Supervisor::Supervisor(SupervisorOptions options)
    : options_(std::move(options)),
      attempt_(options_, Time(), options_.first, options_.size),
      restarts_(options_),
      server_(options_.server_explains, options_.server_survived),
      node_server_(options_.node_server_timeout),
      signals_(options_) {}

Effects Supervisor::Handle(Time now, const Event& event) {
  Effects out;
  if (std::holds_alternative<Finished>(phase_)) return out;
  if (!began_) began_ = attempt_.began = now;
  std::visit([&](const auto& e) { On(now, e, out); }, event);
  Settle(now, out);
  // Else the launcher's timer would fire again and again.
  LOCKSTEP_DCHECK(std::holds_alternative<Running>(phase_) || NextDeadline() > now);
  return out;
}

Time Supervisor::NextDeadline() const {
  if (std::holds_alternative<Finished>(phase_)) return Time::Infinite();
  if (const auto* waits = std::get_if<AwaitingHost>(&phase_)) return waits->until;
  if (const auto* waits = std::get_if<BackingOff>(&phase_)) return waits->until;
  if (std::holds_alternative<Between>(phase_)) return NodesGivenUpAt();
  return std::min({NodesGivenUpAt(), HeedUntil(), attempt_.escalation.deadline(),
                   attempt_.failure.deadline(), attempt_.preemption_check.deadline(),
                   attempt_.early_ends.TellAt(attempt_.processes, options_.tell_ended),
                   attempt_.processes.NextDeadline(options_.raised_window, HelperGrace())});
}

// ---- Processes.

void Supervisor::On(Time now, const ProcessStarted& event, Effects& out) {
  attempt_.processes.Take(now, event, out);
  // It was on its way when the others were killed.
  if (server_.cut_off()) attempt_.escalation.Kill(now, attempt_.processes, out);
}

void Supervisor::On(Time now, const StartFailed& event, Effects& out) {
  LOCKSTEP_CHECK(attempt_.processes.At(event.member).state == ProcessRecord::State::kNotStarted);
  attempt_.start_failed = true;
  attempt_.early_ends.Drop();
  attempt_.failure.Note({.exit_code = event.exit_code});
  out.sentences.push_back(absl::StrFormat("%s/%d could not be started: %s", options_.role,
                                          event.member.value(), event.why));
  if (TellsOthers()) {
    out.failure = {event.member, out.sentences.back(), event.exit_code};
  }
  // A job without one of its members cannot succeed: no grace.
  if (attempt_.escalation.before_sigterm()) {
    attempt_.escalation.Terminate(now, MayRestart(), attempt_.processes, out);
  }
}

void Supervisor::On(Time now, const ProcessEnded& event, Effects& out) {
  ProcessTable& processes = attempt_.processes;
  if (!processes.Take(now, event)) return;
  const ProcessRecord& process = processes.At(event.member);
  const ExitStatus& ending = process.ending;
  if (process.raised && attempt_.failure.member() == event.member) {
    // Its own exit code says more than that it raised something.
    const bool by_itself = ending.signal == 0 || ending.signal != process.sent;
    if (!ending.succeeded() && by_itself) attempt_.failure.SetExitCode(ExitCode(ending));
    if (attempt_.escalation.in_grace()) attempt_.escalation.Unhold(now);
  }
  processes.ReportRaised(event.member, out);
  out.reports.push_back({ProcessReport::Kind::kEnded, event.member, process.pid, ending});

  if (ending.succeeded()) {
    // Nobody failed.
  } else if (preempted_.Explains(now) && !attempt_.failure.any()) {
    out.sentences.push_back(absl::StrCat(processes.EndingText(process), ", preempted"));
    preempted_.NoteEnding(now, ending);
    SettlePreempted();
  } else {
    std::string sentence = processes.EndingText(process);
    if (ending.signal == SIGKILL && process.sent != SIGKILL) {
      absl::StrAppend(&sentence,
                      ", not by lockstep run (the kernel's log tells whether memory ran out)");
    }
    if (attempt_.called_off) {
      // It follows from the others, which have called the attempt off.
      out.sentences.push_back(std::move(sentence));
    } else if (MayStartAlone() && restarts_.AllowsAlone(process.restarts)) {
      processes.PlanRestart(event.member);
      out.sentences.push_back(absl::StrFormat("%s; it is started again, for the %s of %d times",
                                              sentence, Ordinal(process.restarts),
                                              options_.max_restarts));
    } else {
      Fail(now, process, ExitCode(ending), std::move(sentence), out);
    }
  }
  if (process.output_ended) processes.Release(event.member, MayStartAlone(), out);
}

// A process that loses a peer may raise before we see that the peer has ended, so the exception
// waits for that.
void Supervisor::On(Time now, const ExceptionRaised& event, Effects&) {
  attempt_.processes.Take(now, event);
}

void Supervisor::On(Time now, const ProcessStopped& event, Effects& out) {
  attempt_.processes.Take(now, event, out);
}

void Supervisor::On(Time now, const ProcessContinued& event, Effects& out) {
  attempt_.processes.Take(now, event, out);
}

void Supervisor::On(Time, const OutputEnded& event, Effects& out) {
  attempt_.processes.EndOutput(event.member);
  if (attempt_.processes.At(event.member).state == ProcessRecord::State::kEnded) {
    attempt_.processes.Release(event.member, MayStartAlone(), out);
  }
}

void Supervisor::On(Time now, const DeadlineReached&, Effects& out) {
  ProcessTable& processes = attempt_.processes;
  if (now >= HeedUntil()) PassOnNotices(out);
  if (now >= attempt_.early_ends.TellAt(processes, options_.tell_ended)) {
    if (preempted_.Explains(now)) {
      attempt_.early_ends.Drop();
    } else {
      attempt_.early_ends.Tell(now, processes, out);
    }
  }
  for (const ProcessRecord& process : processes.all()) {
    if (now >= process.RaiseCountsAt(options_.raised_window)) TellRaised(now, process, out);
    processes.EndIfOverdue(now, process.member, options_.terminate_grace, out);
  }
  if (attempt_.escalation.Advance(now, MayRestart(), processes, out)) {
    attempt_.failure.Note({.exit_code = kExitSignalBase + SIGKILL});
  }
  for (const ProcessRecord& process : processes.all()) {
    if (process.state != ProcessRecord::State::kEnded) continue;
    if (now < process.ended + HelperGrace()) continue;
    out.sentences.push_back(
        absl::StrCat(processes.Name(process), " left processes behind; they are killed"));
    processes.Release(process.member, MayStartAlone(), out);
  }
}

// ---- Failures.

void Supervisor::Fail(Time now, const ProcessRecord& process, int exit_code, std::string sentence,
                      Effects& out) {
  const bool told_to_end = signals_.told_to_end();
  if (!told_to_end && server_.Explains(now, process.error)) {
    FailFirst(now,
              {.exit_code = kExitLockstepFailed,
               .text = absl::StrCat(server_.text(), "; then ", sentence),
               .culprit = server_.text()},
              out);
    return;
  }
  FailureLedger::Failure failure{.exit_code = exit_code, .text = std::move(sentence)};
  // What ends by a signal to us is nobody's failure.
  if (!told_to_end) failure.culprit = process.member;
  FailFirst(now, std::move(failure), out);
}

void Supervisor::FailFirst(Time now, FailureLedger::Failure failure, Effects& out) {
  failure.at = now;
  std::string sentence = failure.text;
  if (!attempt_.failure.Note(std::move(failure))) return;
  ProcessTable& processes = attempt_.processes;
  const std::optional<MemberIndex> member = attempt_.failure.member();
  const ProcessRecord* const failed = member ? &processes.At(*member) : nullptr;
  if (TellsOthers()) {
    out.failure = {member, sentence, *attempt_.failure.exit_code(),
                   attempt_.failure.Comparable(processes)};
  }
  const int running = processes.CountRunning();
  if (running > 0 && !attempt_.escalation.begun()) {
    const bool raised = failed != nullptr && failed->running();
    const int others = running - (raised ? 1 : 0);
    const std::string who = others == 0 ? "it" : Others(others);
    const bool one = others <= 1;
    if (MayRestart()) {
      // After a SIGKILL there is nothing to wait for: nobody is killed by it because of another.
      const bool killed = failed != nullptr && failed->ending.signal == SIGKILL;
      attempt_.escalation.GraceUntil(now + (killed ? absl::ZeroDuration() : options_.drain_delay));
      absl::StrAppend(&sentence, "; ", who, one ? " is" : " are",
                      " stopped, and all are started again");
    } else {
      attempt_.escalation.GraceUntil(now + options_.grace);
      absl::StrAppend(&sentence, "; ", who, one ? " has " : " have ", DurationText(options_.grace),
                      " to end by ", one ? "itself" : "themselves");
    }
    if (raised) attempt_.escalation.HoldUntil(now + options_.raised_settle);
  }
  out.sentences.push_back(std::move(sentence));
  attempt_.early_ends.Drop();
  if (failed != nullptr && !signals_.told_to_end()) {
    attempt_.early_ends.LookBack(now, *failed, processes, out);
  }
}

void Supervisor::TellRaised(Time now, const ProcessRecord& process, Effects& out) {
  attempt_.processes.ReportRaised(process.member, out);
  std::string sentence = absl::StrCat(attempt_.processes.Name(process), " raised ", process.error);
  if (attempt_.failure.any()) return;  // it follows, and stands in the table of ends
  if (preempted_.Explains(now) || signals_.told_to_end() || attempt_.called_off) {
    out.sentences.push_back(std::move(sentence));
  } else if (MayStartAlone() && restarts_.AllowsAlone(process.restarts)) {
    attempt_.processes.EndBy(process.member, now + options_.grace);
    out.sentences.push_back(
        absl::StrCat(sentence, "; it has ", DurationText(options_.grace), " to end"));
  } else {
    Fail(now, process, kExitRaised, std::move(sentence), out);
  }
}

void Supervisor::SettlePreempted() {
  const std::optional<Time> first = preempted_.first_ended();
  if (!first || attempt_.failure.any() || attempt_.processes.CountRunning() == 0) return;
  if (!attempt_.escalation.before_sigterm() || signals_.told_to_end()) return;
  attempt_.escalation.GraceUntil(preempted_.OthersUntil(*first, options_.grace));
}

// What helpers clean up is not needed any more when their attempt has failed.
absl::Duration Supervisor::HelperGrace() const {
  const bool over = attempt_.failure.any() || attempt_.called_off;
  return over && MayRestart() ? options_.drain_delay : options_.helper_grace;
}

// ---- Signals to us.

void Supervisor::On(Time now, const SignalReceived& event, Effects& out) {
  const int running = attempt_.processes.CountRunning();
  const std::string name = SignalName(event.signal);
  const bool ends = UserSignals::Ends(event.signal);
  if (Waits() && ends) {
    signals_.MarkToldToEnd();
    Finish(
        now, kExitSignalBase + event.signal,
        absl::StrCat(name, " while no attempt was on; ended after ", DurationText(now - *began_)),
        out);
    return;
  }
  if (event.signal == SIGINT) {
    if (const auto first = signals_.Interrupt(now)) return KillInterrupted(now, *first, out);
  }
  const auto taken =
      running > 0 ? signals_.TakeAsNotice(now, event.signal) : UserSignals::Notice::kNo;
  const bool notice = taken != UserSignals::Notice::kNo;
  if (taken == UserSignals::Notice::kFirst) {
    out.notice_signal = event.signal;
    out.sentences.push_back(absl::StrCat(
        name,
        ": the job is told that its processes here will be taken away; once more passes it "
        "on"));
  }
  if (ends && !notice && running > 0 && signals_.NoteEnd(event.signal)) {
    out.tell_why = !attempt_.failure.any();
  }
  if (notice || ends) {
    signals_.MarkToldToEnd();
    attempt_.early_ends.Drop();
  }
  if ((notice || event.signal == SIGTERM) && !attempt_.escalation.begun() && running > 0) {
    attempt_.escalation.GraceUntil(now + options_.term_grace);
  }
  if (notice) return;
  for (const ProcessRecord& process : attempt_.processes.all()) {
    if (process.running()) out.signals.push_back({process.member, event.signal});
  }
  std::string sentence =
      absl::StrFormat("%s: passed on to %d process%s", name, running, running == 1 ? "" : "es");
  if (event.signal == SIGINT) {
    absl::StrAppend(&sentence, "; again within ", DurationText(kSecondInterruptWindow), " kills");
  }
  out.sentences.push_back(std::move(sentence));
}

// What failed before the user asked for the end stays the failure of the run.
void Supervisor::KillInterrupted(Time now, Time first_interrupt, Effects& out) {
  if (attempt_.processes.CountRunning() > 0 && !attempt_.failure.HappenedBefore(first_interrupt)) {
    signals_.MarkKilled();
    attempt_.failure.Replace({.exit_code = kExitSignalBase + SIGINT, .at = now});
  }
  out.sentences.push_back("second SIGINT");
  attempt_.escalation.Kill(now, attempt_.processes, out);
}

Time Supervisor::HeedUntil() const {
  const bool heeded = preempted_.step() || attempt_.processes.CountRunning() == 0;
  return heeded ? Time::Infinite() : signals_.HeedUntil();
}

// Nobody heeds it: what it means without us is better than nothing.
void Supervisor::PassOnNotices(Effects& out) {
  if (attempt_.processes.CountRunning() == 0) return;
  for (const int signal : signals_.PassOn()) {
    attempt_.processes.SignalRunning(signal, out);
    out.sentences.push_back(absl::StrFormat("nobody saves: %s is passed on", SignalName(signal)));
  }
}

// ---- The coordinator's server.

// Who does not need it any more may well succeed; the others fail by themselves.
void Supervisor::On(Time now, const ServerEnded& event, Effects& out) {
  server_.End(now, event.what, event.ending);
  if (event.cut_off) server_.CutOff();
  if (attempt_.processes.CountRunning() == 0) return;
  if (event.cut_off) {
    out.sentences.push_back(absl::StrCat(
        server_.text(),
        "; the processes of this host are killed, because others may take their place"));
    // Without a word: whatever they save or send now, they are not part of the job any more.
    return attempt_.escalation.Kill(now, attempt_.processes, out);
  }
  out.sentences.push_back(
      absl::StrCat(server_.text(), "; processes that need it fail, the others go on"));
}

void Supervisor::On(Time now, const ServerLost& event, Effects&) { server_.Lose(now, event.why); }

void Supervisor::On(Time now, const ServerFound&, Effects&) { server_.Find(now); }

void Supervisor::On(Time, const RootCauseTold& event, Effects&) {
  attempt_.failure.TakeRootCause(event, attempt_.processes);
}

void Supervisor::On(Time now, const PreemptionTold& event, Effects& out) {
  for (std::string& sentence : preempted_.Take(now, event)) {
    out.sentences.push_back(std::move(sentence));
  }
  if (auto* waits = std::get_if<AwaitingHost>(&phase_); waits && preempted_.withdrawn()) {
    waits->until = now;
  }
  if (preempted_.nobody_answered()) PassOnNotices(out);
  SettlePreempted();
}

void Supervisor::On(Time now, const PreemptionChecked& event, Effects& out) {
  attempt_.preemption_check.Answer();
  if (event.told) On(now, *event.told, out);
}

void Supervisor::On(Time now, const HostTold& event, Effects&) {
  preempted_.Take(now, event);
  auto* const waits = std::get_if<AwaitingHost>(&phase_);
  if (waits == nullptr) return;
  if (preempted_.withdrawn()) {
    waits->until = now;
  } else if (options_.on_preempt == OnPreempt::kWait && event.standing && event.left) {
    waits->until = now + *event.left;
  }
}

// ---- The other nodes, and the host of the launcher.

void Supervisor::On(Time now, const AttemptBegins& event, Effects&) {
  LOCKSTEP_CHECK(Waits());
  ResetAttempt(now, event.first, event.size);
  if (event.failures) restarts_.SetUsed(*event.failures);
  if (event.number) history_.SetNumber(*event.number);
  phase_ = Running();
}

void Supervisor::On(Time now, const AttemptCalledOff& event, Effects& out) {
  if (Waits() || attempt_.called_off || signals_.told_to_end()) return;
  attempt_.called_off = event;
  attempt_.early_ends.Drop();
  const int running = attempt_.processes.CountRunning();
  if (!attempt_.failure.any()) {
    out.sentences.push_back(running == 0 || !event.another
                                ? event.why
                                : absl::StrCat(event.why, "; our processes are stopped"));
  } else if (event.why.find(attempt_.failure.text()) == std::string::npos ||
             event.why.find(" is gone") != std::string::npos) {
    // Another node is the cause, and ours failed by that.
    attempt_.failure.BlameOthers(event.why);
    out.sentences.push_back(event.why);
  }
  Escalation& escalation = attempt_.escalation;
  if (running == 0 || !escalation.before_sigterm()) return;
  if (!escalation.begun()) escalation.GraceUntil(now + options_.grace);
  if (event.another) escalation.GraceAtMostUntil(now + options_.drain_delay);
}

void Supervisor::On(Time now, const RunEnded& event, Effects& out) {
  if (!Waits()) return;
  const auto* const between = std::get_if<Between>(&phase_);
  const bool as_ours =
      between != nullptr && between->over && between->over->exit_code == event.exit_code;
  // What ours ended with tells the step and who saved, as it does where there is one node.
  if (as_ours && !attempt_.failure.any() && preempted_.EndedAttempt(now)) {
    return Finish(now, event.exit_code, "", out);
  }
  // Where nothing ever ran, `why` says how long we waited.
  const std::string after =
      now == *began_ ? "" : absl::StrCat(" after ", DurationText(now - *began_));
  Finish(now, event.exit_code,
         absl::StrFormat("%s%s, exit code %d", event.why, after, event.exit_code), out);
}

void Supervisor::On(Time now, const NodeServerLost& event, Effects&) {
  node_server_.Lose(now, event.why);
}

void Supervisor::On(Time, const NodeServerFound&, Effects&) { node_server_.Find(); }

Time Supervisor::NodesGivenUpAt() const {
  if (!Waits()) return Time::Infinite();
  const auto* const between = std::get_if<Between>(&phase_);
  const bool over = between != nullptr && between->over;
  return node_server_.GivenUpAt(over ? std::optional(between->over->since) : std::nullopt);
}

}  // namespace lockstep::launch

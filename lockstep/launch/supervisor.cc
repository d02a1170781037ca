#include "lockstep/launch/supervisor.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/launch/exit_code.h"

namespace lockstep::launch {
namespace {

// Two of the same within this time are one.
constexpr absl::Duration kOneSignal = absl::Seconds(1);

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

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

std::string Spell(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 60) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = absl::ToInt64Seconds(duration);
  if (whole < 3600) return absl::StrFormat("%d min %d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %d min", whole / 3600, whole % 3600 / 60);
}

std::string Describe(const Ending& ending) {
  if (ending.signal != 0) return absl::StrCat("was killed by ", SignalName(ending.signal));
  return absl::StrCat("ended with exit code ", ending.exit_code);
}

int ExitCode(const Ending& ending) {
  return ending.signal != 0 ? kExitSignalBase + ending.signal : ending.exit_code;
}

Supervisor::Supervisor(SupervisorOptions options)
    : options_(std::move(options)),
      first_(options_.first),
      processes_(static_cast<size_t>(options_.size)) {}

Effects Supervisor::Handle(Time now, const Event& event) {
  Effects out;
  if (finished_) return out;
  if (!began_) began_ = now;
  if (!attempt_began_) attempt_began_ = now;
  std::visit([&](const auto& e) { On(now, e, out); }, event);
  FinishIfAllReleased(now, out);
  return out;
}

Time Supervisor::NextDeadline() const {
  if (finished_) return Time::Infinite();
  if (between_) return CrewGivenUpAt();  // whatever the attempt waited for is over with it
  if (again_at_) return *again_at_;
  if (restart_at_) return *restart_at_;
  Time next = std::min(escalate_at_, CrewGivenUpAt());
  if (root_cause_until_ && !root_cause_told_) next = std::min(next, *root_cause_until_);
  if (check_until_ && !checked_) next = std::min(next, *check_until_);
  next = std::min({next, HeedUntil(), TellEndedAt()});
  for (const Process& process : processes_) {
    if (process.state == ProcessState::kEnded) {
      next = std::min(next, process.ended + HelperGrace());
    } else if (process.state == ProcessState::kRunning) {
      next = std::min({next, process.end_by, TellRaisedAt(process)});
    }
  }
  return next;
}

void Supervisor::On(Time now, const ProcessStarted& event, Effects& out) {
  Process& process = At(event.member);
  LOCKSTEP_CHECK(process.state == ProcessState::kNotStarted);
  process.state = ProcessState::kRunning;
  process.pid = event.pid;
  process.started = now;
  out.reports.push_back({ProcessReport::Kind::kStarted, event.member, event.pid, {}});
}

void Supervisor::On(Time now, const StartFailed& event, Effects& out) {
  Process& process = At(event.member);
  LOCKSTEP_CHECK(process.state == ProcessState::kNotStarted);
  start_failed_ = true;
  if (!first_failure_) first_failure_ = event.exit_code;
  out.sentences.push_back(absl::StrFormat("%s/%d could not be started: %s", options_.role,
                                          event.member.value(), event.why));
  if (TellsOthers()) {
    out.failure = {event.member, out.sentences.back(), event.exit_code};
  }
  // A job without one of its members cannot succeed: no grace.
  if (escalation_ <= Escalation::kGrace) Escalate(now, Escalation::kTerminated, out);
}

void Supervisor::On(Time now, const ProcessEnded& event, Effects& out) {
  Process& process = At(event.member);
  if (process.state != ProcessState::kRunning) return;
  process.state = ProcessState::kEnded;
  process.ended = now;
  process.stopped_since.reset();
  process.ending = event.ending;
  process.last_lines = event.last_lines;
  if (!process.raised) process.error = event.error;
  // Its own exit code says more than that it raised something.
  const bool by_itself = event.ending.signal == 0 || event.ending.signal != process.sent;
  if (process.raised && first_failed_ == event.member && !event.ending.succeeded() && by_itself) {
    first_failure_ = ExitCode(event.ending);
  }
  if (process.raised && first_failed_ == event.member && escalation_ == Escalation::kGrace) {
    escalate_at_ = std::min(escalate_at_, std::max(now, escalate_meant_));
  }
  ReportRaised(process, out);
  out.reports.push_back({ProcessReport::Kind::kEnded, event.member, process.pid, event.ending});

  if (!event.ending.succeeded() && preempted_.Explains(now) && !first_failure_) {
    out.sentences.push_back(absl::StrCat(EndingText(event.member, process), ", preempted"));
    if (!first_preempted_) {
      first_preempted_ = now;
      first_preempted_end_ = event.ending;
    }
    if (event.ending.signal == 0 && !preempted_exit_code_) {
      preempted_exit_code_ = event.ending.exit_code;
    }
    SettlePreempted(now, out);
  } else if (!event.ending.succeeded()) {
    std::string sentence = EndingText(event.member, process);
    if (event.ending.signal == SIGKILL && process.sent != SIGKILL) {
      absl::StrAppend(&sentence,
                      ", not by lockstep run (the kernel's log tells whether memory ran out)");
    }
    // What ends once the others have called the attempt off follows from them.
    if (called_off_) {
      out.sentences.push_back(std::move(sentence));
    } else if (MayRestart(process)) {
      process.again = true;
      ++process.restarts;
      out.sentences.push_back(absl::StrFormat("%s; it is started again, for the %s of %d times",
                                              sentence, Ordinal(process.restarts),
                                              options_.max_restarts));
    } else if (ServerExplains(now, process)) {
      cause_ = server_text_;
      FailFirst(now, kExitLockstepFailed, absl::StrCat(server_text_, "; then ", sentence), out);
    } else {
      // A signal to us is nobody's failure.
      if (!first_failure_ && !told_to_end_) first_failed_ = event.member;
      FailFirst(now, ExitCode(event.ending), std::move(sentence), out);
    }
  }
  if (process.output_ended) Release(event.member, process, out);
}

void Supervisor::On(Time now, const ProcessStopped& event, Effects& out) {
  Process& process = At(event.member);
  if (process.state != ProcessState::kRunning) return;
  process.stopped_since = now;
  process.stop_signal = event.signal;
  out.reports.push_back({ProcessReport::Kind::kStopped, event.member, process.pid, {}});
  out.sentences.push_back(
      absl::StrFormat("%s was stopped by %s; the others wait for it (kill -CONT -%d lets it go on)",
                      Name(event.member, process), SignalName(event.signal), process.pid));
}

void Supervisor::On(Time now, const ProcessContinued& event, Effects& out) {
  Process& process = At(event.member);
  // A stop and its end can merge into one wake-up; then there is nothing to take back.
  if (process.state != ProcessState::kRunning || !process.stopped_since) return;
  out.reports.push_back({ProcessReport::Kind::kContinued, event.member, process.pid, {}});
  out.sentences.push_back(absl::StrFormat("%s goes on after %s", Name(event.member, process),
                                          Spell(now - *process.stopped_since)));
  process.stopped_since.reset();
}

void Supervisor::On(Time, const OutputEnded& event, Effects& out) {
  Process& process = At(event.member);
  process.output_ended = true;
  if (process.state == ProcessState::kEnded) Release(event.member, process, out);
}

void Supervisor::On(Time now, const SignalReceived& event, Effects& out) {
  const int running = CountRunning();
  const std::string name = SignalName(event.signal);
  if (Waits() && event.signal != SIGUSR1 && event.signal != SIGUSR2) {
    told_to_end_ = true;
    Finish(now, kExitSignalBase + event.signal,
           absl::StrCat(name, " while no attempt was on; ended after ", Spell(now - *began_)), out);
    return;
  }
  if (event.signal == SIGINT) {
    const std::optional<Time> before = std::exchange(interrupted_, now);
    if (before && now - *before <= kSecondInterruptWindow) {
      return KillInterrupted(now, *before, out);
    }
  }
  const bool notice = TakeAsNotice(now, event.signal, out);
  const bool ends = event.signal != SIGUSR1 && event.signal != SIGUSR2;
  if (ends && !notice && !end_signal_ && running > 0) {
    end_signal_ = event.signal;
    out.tell_why = !first_failure_;
  }
  told_to_end_ |= notice || ends;
  if ((notice || event.signal == SIGTERM) && escalation_ == Escalation::kNone && running > 0) {
    Escalate(now, Escalation::kGrace, out);
    escalate_at_ = now + options_.term_grace;
  }
  if (notice) return;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].state != ProcessState::kRunning) continue;
    out.signals.push_back({Member(i), event.signal});
  }
  std::string sentence =
      absl::StrFormat("%s: passed on to %d process%s", name, running, running == 1 ? "" : "es");
  if (event.signal == SIGINT) {
    absl::StrAppend(&sentence, "; again within ", Spell(kSecondInterruptWindow), " kills");
  }
  out.sentences.push_back(std::move(sentence));
}

// What failed before the user asked for the end stays the failure of the run.
void Supervisor::KillInterrupted(Time now, Time first_interrupt, Effects& out) {
  const bool failed_before =
      first_failure_ && (!first_failure_at_ || *first_failure_at_ < first_interrupt);
  if (CountRunning() > 0 && !failed_before) {
    killed_by_interrupt_ = true;
    first_failure_ = kExitSignalBase + SIGINT;
    first_failure_at_ = now;
    first_failed_.reset();
  }
  out.sentences.push_back("second SIGINT");
  Escalate(now, Escalation::kKilled, out);
}

bool Supervisor::TakeAsNotice(Time now, int signal, Effects& out) {
  const auto& notices = options_.notice_signals;
  if (std::find(notices.begin(), notices.end(), signal) == notices.end()) return false;
  if (CountRunning() == 0) return false;
  const auto [taken, first] = signals_taken_.try_emplace(signal, TakenSignal{now, false});
  // Who signals a process and its group, as timeout(1) does, means it once.
  if (!first && now - taken->second.at < kOneSignal) return true;
  if (!first) {
    taken->second.passed_on = true;
    return false;
  }
  out.notice_signal = signal;
  out.sentences.push_back(absl::StrFormat(
      "%s: the job is told that its processes here will be taken away; once more passes it on",
      SignalName(signal)));
  return true;
}

void Supervisor::On(Time now, const PreemptionTold& event, Effects& out) {
  for (std::string& sentence : preempted_.Take(now, event)) {
    out.sentences.push_back(std::move(sentence));
  }
  if (again_at_ && preempted_.withdrawn()) again_at_ = now;
  if (preempted_.nobody_answered()) PassOnTaken(out);
  SettlePreempted(now, out);
}

// Nobody heeds it: what it means without us is better than nothing.
void Supervisor::PassOnTaken(Effects& out) {
  for (auto& [signal, taken] : signals_taken_) {
    if (taken.passed_on || CountRunning() == 0) continue;
    taken.passed_on = true;
    SignalRunning(signal, out);
    out.sentences.push_back(absl::StrFormat("nobody saves: %s is passed on", SignalName(signal)));
  }
}

Time Supervisor::HeedUntil() const {
  Time until = Time::Infinite();
  if (preempted_.step() || CountRunning() == 0) return until;
  for (const auto& [signal, taken] : signals_taken_) {
    if (!taken.passed_on) until = std::min(until, taken.at + options_.heed_timeout);
  }
  return until;
}

void Supervisor::On(Time now, const HostTold& event, Effects&) {
  preempted_.Take(now, event);
  if (!again_at_) return;
  if (preempted_.withdrawn()) {
    again_at_ = now;
  } else if (options_.on_preempt == OnPreempt::kWait && event.standing && event.left) {
    again_at_ = now + *event.left;
  }
}

void Supervisor::SettlePreempted(Time now, Effects& out) {
  if (!first_preempted_ || first_failure_ || CountRunning() == 0) return;
  if (escalation_ > Escalation::kGrace || told_to_end_) return;
  if (escalation_ == Escalation::kNone) Escalate(now, Escalation::kGrace, out);
  escalate_at_ = preempted_.OthersUntil(*first_preempted_, options_.grace);
}

void Supervisor::On(Time now, const DeadlineReached&, Effects& out) {
  if (now >= HeedUntil()) PassOnTaken(out);
  if (now >= TellEndedAt()) TellEnded(now, out);
  EndRaised(now, out);
  if (now >= escalate_at_) {
    switch (escalation_) {
      case Escalation::kGrace:
        Escalate(now, Escalation::kTerminated, out);
        break;
      case Escalation::kTerminated:
        Escalate(now, Escalation::kKilled, out);
        break;
      case Escalation::kKilled:
        GiveUp(now, out);
        break;
      case Escalation::kNone:
      case Escalation::kGivenUp:
        break;
    }
  }
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    if (process.state == ProcessState::kEnded && now >= process.ended + HelperGrace()) {
      const MemberIndex member = Member(i);
      out.sentences.push_back(
          absl::StrFormat("%s left processes behind; they are killed", Name(member, process)));
      Release(member, process, out);
    }
  }
}

Supervisor::Process& Supervisor::At(MemberIndex member) {
  const int32_t at = member.value() - first_;
  LOCKSTEP_CHECK(at >= 0 && static_cast<size_t>(at) < processes_.size());
  return processes_[static_cast<size_t>(at)];
}

std::string Supervisor::Name(MemberIndex member, const Process& process) const {
  return absl::StrFormat("%s/%d (pid %d)", options_.role, member.value(), process.pid);
}

int Supervisor::CountRunning() const {
  return static_cast<int>(std::count_if(
      processes_.begin(), processes_.end(),
      [](const Process& process) { return process.state == ProcessState::kRunning; }));
}

// Only the first failure is told at once: the others mostly follow from it, and stand in the
// verdict.
void Supervisor::FailFirst(Time now, int exit_code, std::string sentence, Effects& out) {
  if (first_failure_) return;
  first_failure_ = exit_code;
  first_failure_at_ = now;
  first_failure_text_ = sentence;
  if (TellsOthers()) out.failure = {first_failed_, sentence, exit_code, FailureText()};
  int running = CountRunning();
  if (running > 0 && escalation_ == Escalation::kNone) {
    if (first_failed_ && At(*first_failed_).state == ProcessState::kRunning) --running;
    const std::string others = running == 0 ? "it" : Others(running);
    running = std::max(running, 1);
    Escalate(now, Escalation::kGrace, out);
    if (MayRestart()) {
      escalate_at_ = now + Settle();
      absl::StrAppend(&sentence, "; ", others, running == 1 ? " is" : " are",
                      " stopped, and all are started again");
    } else {
      absl::StrAppend(&sentence, "; ", others, running == 1 ? " has " : " have ",
                      Spell(options_.grace), " to end by ", running == 1 ? "itself" : "themselves");
    }
    escalate_meant_ = escalate_at_;
    if (first_failed_ && At(*first_failed_).state == ProcessState::kRunning) {
      escalate_at_ = std::max(escalate_at_, now + options_.raised_settle);
    }
  }
  out.sentences.push_back(std::move(sentence));
  LookBack(now, out);
}

void Supervisor::Escalate(Time now, Escalation to, Effects& out) {
  escalation_ = to;
  const int running = CountRunning();
  const std::string left = absl::StrFormat("%d process%s", running, running == 1 ? "" : "es");
  switch (to) {
    case Escalation::kGrace:
      escalate_at_ = now + options_.grace;
      return;
    case Escalation::kTerminated:
      escalate_at_ = now + (MayRestart() ? options_.stop_grace : options_.terminate_grace);
      if (running == 0) return;
      if (!MayRestart()) out.sentences.push_back("the grace is over: SIGTERM to " + left);
      // JAX takes SIGTERM for a preemption; the server knows better when it is told before.
      for (size_t i = 0; i < processes_.size(); ++i) {
        if (processes_[i].state != ProcessState::kRunning) continue;
        out.reports.push_back({ProcessReport::Kind::kEnding, Member(i), processes_[i].pid, {}});
      }
      SignalRunning(SIGTERM, out);
      // A stopped process takes SIGTERM only when it goes on.
      SignalRunning(SIGCONT, out);
      return;
    case Escalation::kKilled:
      escalate_at_ = now + options_.kill_grace;
      if (running > 0) {
        out.sentences.push_back(absl::StrCat("SIGKILL to ", left));
        SignalRunning(SIGKILL, out);
      }
      ReleaseEnded(out);
      return;
    case Escalation::kNone:
    case Escalation::kGivenUp:
      escalate_at_ = Time::Infinite();
      return;
  }
}

void Supervisor::SignalRunning(int signal, Effects& out) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    if (process.state != ProcessState::kRunning) continue;
    if (signal != SIGCONT) process.sent = signal;
    out.signals.push_back({Member(i), signal});
  }
}

void Supervisor::GiveUp(Time now, Effects& out) {
  Escalate(now, Escalation::kGivenUp, out);
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    if (process.state != ProcessState::kRunning) continue;
    const MemberIndex member = Member(i);
    out.sentences.push_back(
        absl::StrFormat("%s did not end within %s of SIGKILL: it hangs in the kernel, and is left",
                        Name(member, process), Spell(options_.kill_grace)));
    process.given_up = true;
    if (!first_failure_) first_failure_ = kExitSignalBase + SIGKILL;
    process.ended = now;
    Release(member, process, out);
  }
}

void Supervisor::Release(MemberIndex member, Process& process, Effects& out) {
  process.state = ProcessState::kReleased;
  out.releases.push_back(member);
  if (!process.again) return;
  process.again = false;
  if (!MayStartAlone()) return;
  out.starts.push_back({member, process.restarts});
  const int32_t restarts = process.restarts;
  process = Process();
  process.restarts = restarts;
}

// Does not wait any longer for what ended processes left behind.
void Supervisor::ReleaseEnded(Effects& out) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].state != ProcessState::kEnded) continue;
    Release(Member(i), processes_[i], out);
  }
}

bool Supervisor::EndedWell(const Process& process) {
  const bool ended =
      process.state == ProcessState::kEnded || process.state == ProcessState::kReleased;
  return ended && process.ending.succeeded() && !process.given_up;
}

void Supervisor::FinishIfAllReleased(Time now, Effects& out) {
  if (!finished_ && now >= CrewGivenUpAt()) return GiveUpCrew(now, out);
  if (between_ || finished_) return;
  for (const Process& process : processes_) {
    const bool over = process.state == ProcessState::kReleased ||
                      (start_failed_ && process.state == ProcessState::kNotStarted);
    if (!over) return;
  }
  if (AwaitsRootCause(now, out) || AwaitsCheck(now, out) || StartPreemptedAgain(now, out)) return;
  if (!TellsOthers() && RestartFailed(now, out)) return;
  // Whoever is told to end goes, and the others are left to their crew.
  if (!options_.alone && !told_to_end_) {
    between_ = true;
    over_since_ = now;
    attempt_exit_code_ = ExitCodeOfAttempt(now);
    out.attempt_over = AttemptOver{.exit_code = *attempt_exit_code_, .text = TextForOthers(now)};
    return;
  }
  const int exit_code = ExitCodeOfAttempt(now);
  Finish(now, exit_code, SentenceOfEnd(now, exit_code), out);
}

// A preempted run that saved ends like no other, so that a scheduler starts it again.
int Supervisor::ExitCodeOfAttempt(Time now) const {
  if (first_failure_) return *first_failure_;
  if (!first_preempted_ && !WasPreempted(now)) return 0;
  // Whoever chose one means it.
  if (preempted_exit_code_) return *preempted_exit_code_;
  if (preempted_.saved()) return WasPreempted(now) ? options_.preempt_exit_code : 0;
  return first_preempted_end_ ? ExitCode(*first_preempted_end_) : options_.preempt_exit_code;
}

// Where nobody was to save and all ended well, the work was done before.
bool Supervisor::WasPreempted(Time now) const {
  return preempted_.Interrupted(now) && (preempted_.step() || first_preempted_);
}

bool Supervisor::AwaitsCheck(Time now, Effects& out) {
  if (options_.on_preempt == OnPreempt::kExit || first_failure_ || told_to_end_ || checked_) {
    return false;
  }
  if (check_until_) return now < *check_until_;
  check_until_ = now + options_.check_timeout;
  out.check_preemption = true;
  return true;
}

void Supervisor::On(Time now, const PreemptionChecked& event, Effects& out) {
  checked_ = true;
  if (event.told) On(now, *event.told, out);
}

}  // namespace lockstep::launch

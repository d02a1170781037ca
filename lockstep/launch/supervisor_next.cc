// What the supervisor decides once all processes of an attempt have ended.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/launch/exit_code.h"
#include "lockstep/launch/run_verdict.h"
#include "lockstep/launch/supervisor.h"

namespace lockstep::launch {

bool Supervisor::MayRestart() const {
  if (signals_.told_to_end() || attempt_.start_failed || server_.ended()) return false;
  return attempt_.called_off ? attempt_.called_off->another : restarts_.AllowsAll();
}

// Once it is ending, for whatever reason, nobody is started any more.
bool Supervisor::MayStartAlone() const {
  return options_.scope == RestartScope::kRank && !signals_.told_to_end() &&
         !attempt_.start_failed && !server_.ended() && !attempt_.failure.any() &&
         !attempt_.called_off;
}

bool Supervisor::TellsOthers() const {
  const bool by_ourselves = options_.scope == RestartScope::kNode && MayRestart();
  return !options_.alone && !attempt_.called_off && !signals_.told_to_end() && !by_ourselves;
}

bool Supervisor::GivesUp(Time now) const {
  // Once the next attempt waits for its time, that is decided.
  return std::holds_alternative<Running>(phase_) && attempt_.failure.any() &&
         attempt_.failure.nobody_joined() && restarts_.IsEarly(now - attempt_.began) &&
         restarts_.TooManyAlike(attempt_.failure.Comparable(attempt_.processes));
}

bool Supervisor::Waits() const {
  return std::holds_alternative<Between>(phase_) || attempt_.processes.NoneStarted();
}

void Supervisor::Settle(Time now, Effects& out) {
  if (std::holds_alternative<Finished>(phase_)) return;
  if (server_.cut_off() && (Waits() || attempt_.processes.AllReleased(attempt_.start_failed))) {
    return Finish(now, kExitLockstepFailed,
                  absl::StrCat(server_.text(),
                               "; start lockstep run here again when this host and "
                               "its network work again"),
                  out);
  }
  if (now >= NodesGivenUpAt()) {
    const auto* const between = std::get_if<Between>(&phase_);
    const bool had_run = between != nullptr && between->over;
    const int exit_code = had_run ? between->over->exit_code : kExitLockstepFailed;
    return Finish(now, exit_code, node_server_.GivenUpText(now, had_run, exit_code), out);
  }
  if (std::holds_alternative<Between>(phase_)) return;
  if (!attempt_.processes.AllReleased(attempt_.start_failed)) return;
  if (std::holds_alternative<Running>(phase_)) {
    if (AwaitsAnswer(now, out)) return;
    phase_ = PlanNext(now, out);
  }
  // Whoever is told to end goes, and what the others call off is over.
  const bool goes_on = !signals_.told_to_end() && !attempt_.called_off;
  if (const auto* waits = std::get_if<AwaitingHost>(&phase_); waits != nullptr && goes_on) {
    if (now >= waits->until) RestartPreempted(now, out);
  } else if (const auto* backs_off = std::get_if<BackingOff>(&phase_);
             backs_off != nullptr && goes_on && !server_.ended()) {
    if (now >= backs_off->until) RestartFailed(now, out);
  } else {
    EndAttempt(now, out);
  }
}

bool Supervisor::AwaitsAnswer(Time now, Effects& out) {
  FailureLedger& failure = attempt_.failure;
  const ProcessTable& processes = attempt_.processes;
  const bool decides = MayRestart() && restarts_.TooManyAlike(failure.Comparable(processes));
  if (options_.asks_root_cause &&
      failure.AwaitsRootCause(now, processes, decides, options_.root_cause_timeout,
                              out.ask_root_cause)) {
    return true;
  }
  if (options_.on_preempt == OnPreempt::kExit || failure.any() || signals_.told_to_end()) {
    return false;
  }
  return attempt_.preemption_check.Awaits(now, options_.check_timeout, out.check_preemption);
}

Supervisor::Phase Supervisor::PlanNext(Time now, Effects& out) {
  if (signals_.told_to_end() || attempt_.called_off) return Running();
  if (!attempt_.failure.any()) {
    if (options_.on_preempt == OnPreempt::kExit || !preempted_.EndedAttempt(now)) return Running();
    const bool at_once = options_.on_preempt == OnPreempt::kRestart;
    const Time until = at_once ? now : std::max(now, preempted_.death());
    const std::string when = until.is_infinite() ? "when that is withdrawn"
                                                 : absl::StrCat("in ", DurationText(until - now),
                                                                ", or when that is withdrawn");
    out.sentences.push_back(absl::StrCat(
        "all have ended; ", preempted_.Summary(),
        until == now ? "; starting them again"
                     : "; they are started again when this host turns out to live on: " + when));
    return AwaitingHost{until};
  }
  if (TellsOthers() || !MayRestart() || GivesUp(now)) return Running();
  const absl::Duration wait =
      restarts_.BackOff(attempt_.failure.Comparable(attempt_.processes), now - attempt_.began);
  if (wait > absl::ZeroDuration()) {
    out.sentences.push_back(absl::StrFormat(
        "%d failures in a row within %s: the next attempt begins in %s", restarts_.quick_failures(),
        DurationText(options_.quick_failure), DurationText(wait)));
  }
  return BackingOff{now + wait};
}

void Supervisor::RestartFailed(Time now, Effects& out) {
  restarts_.Use();
  const std::optional<MemberIndex> member = attempt_.failure.member();
  const std::string failed = absl::StrFormat(
      "%s failed after %s: %s", history_.AttemptName(), DurationText(now - attempt_.began),
      member ? attempt_.processes.EndingText(attempt_.processes.At(*member))
             : attempt_.failure.text());
  history_.AddFailed(failed);
  history_.Restart();
  out.sentences.push_back(absl::StrFormat("%s; %s begins (restart %d of %d)", failed,
                                          history_.AttemptName(), restarts_.used(),
                                          options_.max_restarts));
  out.restart = history_.restarts();
  ResetAttempt(now, attempt_.processes.first(), attempt_.processes.size());
  phase_ = Between();
}

void Supervisor::RestartPreempted(Time now, Effects& out) {
  if (!preempted_.saved()) {
    history_.SetLost(absl::StrCat(history_.AttemptName(),
                                  " was preempted without a checkpoint of all (",
                                  preempted_.Summary(),
                                  "), so its work since the one before was "
                                  "lost"));
  }
  history_.Restart();
  Between next;
  if (options_.alone) {
    out.restart = history_.restarts();
  } else {
    next.over = {now, preempted_.ExitCode(now, options_.preempt_exit_code)};
    out.attempt_over = AttemptOver{.exit_code = next.over->exit_code, .again = true};
  }
  ResetAttempt(now, attempt_.processes.first(), attempt_.processes.size());
  phase_ = next;
}

void Supervisor::ResetAttempt(Time now, int32_t first, int32_t size) {
  attempt_ = Attempt(options_, now, first, size);
  if (preempted_.attempt() > 0) preempted_ = PreemptedRun(preempted_.attempt());
  server_.BeginAttempt();
}

void Supervisor::EndAttempt(Time now, Effects& out) {
  const int exit_code =
      attempt_.failure.exit_code().value_or(preempted_.ExitCode(now, options_.preempt_exit_code));
  // Whoever is told to end goes, and the others are left to their node group.
  if (options_.alone || signals_.told_to_end()) return Finish(now, exit_code, "", out);
  phase_ = Between{Between::Over{now, exit_code}};
  out.attempt_over = AttemptOver{.exit_code = exit_code};
  if (!attempt_.failure.any() && preempted_.EndedAttempt(now)) {
    out.attempt_over->text = absl::StrCat("preempted; ", preempted_.Summary());
  }
}

// Whose failure the others followed from stands first, with what it said last.
void Supervisor::Finish(Time now, int exit_code, std::string sentence, Effects& out) {
  const FailureLedger& failure = attempt_.failure;
  const absl::Duration lasted = now - *began_;
  Outcome outcome = Outcome::kFailed;
  std::string what = "failed";
  if (!failure.any() && preempted_.EndedAttempt(now)) {
    outcome = Outcome::kPreempted;
  } else if (exit_code == 0) {
    outcome = Outcome::kSucceeded;
  } else if (signals_.killed()) {
    outcome = Outcome::kInterrupted;
    what = "interrupted";
  } else if (signals_.end_signal() && !failure.member() && failure.cause().empty()) {
    outcome = Outcome::kSignalled;
    what = absl::StrCat("ended by ", SignalName(*signals_.end_signal()));
  } else if (GivesUp(now)) {
    what =
        absl::StrFormat("giving up: the same failure %d times, each soon after the start; failed",
                        restarts_.CountAlike(failure.Comparable(attempt_.processes)));
  }
  if (!sentence.empty()) {
    // The caller knows better what ended it.
  } else if (outcome == Outcome::kPreempted) {
    sentence = absl::StrFormat("preempted after %s, exit code %d; %s", DurationText(lasted),
                               exit_code, preempted_.Summary());
  } else if (outcome == Outcome::kSucceeded) {
    sentence = absl::StrFormat("all %d succeeded in %s", attempt_.processes.all().size(),
                               DurationText(lasted));
  } else {
    sentence = absl::StrFormat("%s after %s, exit code %d", what, DurationText(lasted), exit_code);
  }
  if (!history_.lost().empty()) absl::StrAppend(&sentence, "; ", history_.lost());
  for (const std::string& failed : history_.failed_attempts()) out.sentences.push_back(failed);
  for (std::string& line : TableOfEnds(attempt_.processes, failure)) {
    out.sentences.push_back(std::move(line));
  }
  out.sentences.push_back(sentence);
  out.exit_code = exit_code;
  out.result = MakeResult(outcome, exit_code, lasted, std::move(sentence), attempt_.processes,
                          failure, history_);
  phase_ = Finished();
}

}  // namespace lockstep::launch

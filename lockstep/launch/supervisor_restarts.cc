// What the supervisor decides about starting processes again.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/launch/supervisor.h"

namespace lockstep::launch {

bool Supervisor::MayRestart() const {
  if (told_to_end_ || start_failed_ || server_ended_) return false;
  if (called_off_) return another_follows_;
  return options_.scope != RestartScope::kRank && failures_ < options_.max_restarts;
}

bool Supervisor::MayRestart(const Process& process) const {
  return MayStartAlone() && process.restarts < options_.max_restarts;
}

// Once it is ending, for whatever reason, nobody is started any more.
bool Supervisor::MayStartAlone() const {
  return options_.scope == RestartScope::kRank && !told_to_end_ && !start_failed_ &&
         !server_ended_ && !first_failure_ && !called_off_;
}

bool Supervisor::Waits() const {
  return between_ || std::all_of(processes_.begin(), processes_.end(), [](const Process& process) {
           return process.state == ProcessState::kNotStarted;
         });
}

// What helpers clean up is not needed any more when their attempt has failed.
absl::Duration Supervisor::HelperGrace() const {
  const bool over = first_failure_ || called_off_;
  return over && MayRestart() ? options_.settle : options_.helper_grace;
}

absl::Duration Supervisor::Settle() {
  const bool killed = first_failed_ && At(*first_failed_).ending.signal == SIGKILL;
  return killed ? absl::ZeroDuration() : options_.settle;
}

bool Supervisor::TellsOthers() const {
  return !options_.alone && !called_off_ && !told_to_end_ &&
         !(options_.scope == RestartScope::kNode && MayRestart());
}

std::string Supervisor::AttemptText(int32_t restarts) const {
  return absl::StrFormat("attempt %d", first_number_ + restarts);
}

bool Supervisor::RestartFailed(Time now, Effects& out) {
  if (!first_failure_ || called_off_ || !MayRestart()) return false;
  if (GivesUp(now)) return false;
  if (BacksOff(now, out)) return true;
  if (failed_early_) {
    failure_texts_.push_back(FailureText());
  } else {
    failure_texts_.clear();
  }
  if (failure_texts_.size() > static_cast<size_t>(options_.same_failures_max)) {
    failure_texts_.erase(failure_texts_.begin());
  }
  ++failures_;
  std::string cause = first_failure_text_;
  if (first_failed_) {
    cause = EndingText(*first_failed_, At(*first_failed_));
  }
  const std::string failed = absl::StrFormat("%s failed after %s: %s", AttemptText(restarts_),
                                             Spell(now - attempt_began_.value_or(now)), cause);
  ++restarts_;
  out.sentences.push_back(absl::StrFormat("%s; %s begins (restart %d of %d)", failed,
                                          AttemptText(restarts_), failures_,
                                          options_.max_restarts));
  past_.push_back(failed);
  ForgetAttempt();
  out.restart = restarts_;
  return true;
}

bool Supervisor::StartPreemptedAgain(Time now, Effects& out) {
  if (options_.on_preempt == OnPreempt::kExit || first_failure_ || told_to_end_ || called_off_) {
    return false;
  }
  if (!again_at_) {
    if (!WasPreempted(now)) return false;
    again_at_ =
        options_.on_preempt == OnPreempt::kRestart ? now : std::max(now, preempted_.death());
    out.sentences.push_back(absl::StrCat(
        "all have ended; ", preempted_.Summary(),
        *again_at_ == now
            ? std::string("; starting them again")
            : absl::StrCat("; they are started again when this host turns out to live on: ",
                           again_at_->is_infinite()
                               ? std::string("when that is withdrawn")
                               : absl::StrCat("in ", Spell(*again_at_ - now),
                                              ", or when that is withdrawn"))));
  }
  if (now < *again_at_) return true;
  if (!preempted_.saved()) {
    lost_ = absl::StrCat(AttemptText(restarts_), " was preempted without a checkpoint of all (",
                         preempted_.Summary(), "), so its work since the one before was lost");
  }
  ++restarts_;
  if (options_.alone) {
    out.restart = restarts_;
  } else {
    over_since_ = now;
    attempt_exit_code_ = ExitCodeOfAttempt(now);
    out.attempt_over = AttemptOver{.exit_code = *attempt_exit_code_, .again = true};
  }
  ForgetAttempt();
  return true;
}

void Supervisor::ForgetAttempt() {
  between_ = true;
  processes_.assign(processes_.size(), Process());
  escalation_ = Escalation::kNone;
  escalate_at_ = Time::Infinite();
  first_failure_.reset();
  first_failure_at_.reset();
  first_failure_text_.clear();
  first_failed_.reset();
  start_failed_ = false;
  told_ended_ = false;
  root_cause_until_.reset();
  root_cause_told_ = false;
  called_off_.reset();
  another_follows_ = false;
  first_preempted_.reset();
  first_preempted_end_.reset();
  preempted_exit_code_.reset();
  again_at_.reset();
  check_until_.reset();
  checked_ = false;
  cause_.clear();
  if (!server_ended_) server_lost_.reset();  // it may be there again
  joined_.reset();
  restart_at_.reset();
  if (preempted_.attempt() > 0) preempted_ = PreemptedRun(preempted_.attempt());
}

void Supervisor::On(Time now, const AttemptBegins& event, Effects&) {
  LOCKSTEP_CHECK(Waits());
  ForgetAttempt();
  if (event.failures) failures_ = *event.failures;
  if (event.number) first_number_ = *event.number - restarts_;
  between_ = false;
  attempt_exit_code_.reset();
  over_since_.reset();
  first_ = event.first;
  processes_.assign(static_cast<size_t>(event.size), Process());
  attempt_began_ = now;
}

void Supervisor::On(Time now, const AttemptCalledOff& event, Effects& out) {
  if (Waits() || called_off_ || told_to_end_) return;
  const bool failed_here = first_failure_.has_value();
  called_off_ = event.why;
  another_follows_ = event.another;
  const int running = CountRunning();
  // Somebody else is the cause, and ours failed by that.
  const bool ours = failed_here && event.why.find(first_failure_text_) != std::string::npos &&
                    event.why.find(" is gone") == std::string::npos;
  if (failed_here && !ours) {
    cause_ = event.why;
    first_failed_.reset();
    out.sentences.push_back(event.why);
  } else if (!failed_here) {
    out.sentences.push_back(running == 0 || !event.another
                                ? event.why
                                : absl::StrCat(event.why, "; our processes are stopped"));
  }
  if (running == 0) return;
  if (escalation_ > Escalation::kGrace) return;
  if (escalation_ == Escalation::kNone) Escalate(now, Escalation::kGrace, out);
  if (event.another) escalate_at_ = std::min(escalate_at_, now + options_.settle);
}

void Supervisor::On(Time now, const RunEnded& event, Effects& out) {
  if (!Waits()) return;
  // What ours ended with tells the step and who saved, as it does where there is one node.
  if (event.exit_code == attempt_exit_code_ && !first_failure_ && WasPreempted(now)) {
    return Finish(now, event.exit_code, SentenceOfEnd(now, event.exit_code), out);
  }
  // Where nothing ever ran, `why` says how long we waited.
  const std::string after = now == *began_ ? "" : absl::StrCat(" after ", Spell(now - *began_));
  Finish(now, event.exit_code,
         absl::StrFormat("%s%s, exit code %d", event.why, after, event.exit_code), out);
}

void Supervisor::On(Time now, const CrewLost& event, Effects&) {
  if (!crew_lost_) crew_lost_ = now;
  crew_lost_why_ = event.why;
}

void Supervisor::On(Time, const CrewFound&, Effects&) { crew_lost_.reset(); }

// The others may be well, and the server come back: only who has nothing left to do here goes.
Time Supervisor::CrewGivenUpAt() const {
  if (!crew_lost_ || !Waits()) return Time::Infinite();
  return std::max(*crew_lost_, over_since_.value_or(*crew_lost_)) + options_.crew_timeout;
}

void Supervisor::GiveUpCrew(Time now, Effects& out) {
  const int exit_code = attempt_exit_code_.value_or(kExitLockstepFailed);
  Finish(now, exit_code,
         absl::StrFormat(
             "the server at which the nodes meet was not reached for %s (%s): whether "
             "the other nodes are well is not known here; %s, exit code %d",
             Spell(now - *crew_lost_), crew_lost_why_,
             attempt_exit_code_ ? "this node's processes had ended" : "no attempt had begun",
             exit_code),
         out);
}

}  // namespace lockstep::launch

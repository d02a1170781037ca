// What the supervisor says about the ends of processes: the table at the end of a run.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/launch/supervisor.h"

namespace lockstep::launch {
namespace {

// Each below the sentence that they follow.
std::string LastLines(const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  return absl::StrCat("; the last that it wrote:\n  | ", absl::StrJoin(lines, "\n  | "));
}

}  // namespace

// Whose failure the others followed from stands first, with what it said last.
void Supervisor::Finish(Time now, int exit_code, std::string sentence, Effects& out) {
  finished_ = true;
  if (!lost_.empty()) absl::StrAppend(&sentence, "; ", lost_);
  out.result = ResultOf(now, exit_code, sentence);
  for (std::string& past : past_) out.sentences.push_back(std::move(past));
  if (!cause_.empty()) out.sentences.push_back(absl::StrCat(cause_, " <- the first to fail"));
  if (first_failed_) {
    const Process& cause = At(*first_failed_);
    out.sentences.push_back(
        absl::StrCat(Verdict(*first_failed_, cause), LastLines(cause.last_lines)));
  }
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (Member(i) != first_failed_) out.sentences.push_back(Verdict(Member(i), processes_[i]));
  }
  out.exit_code = exit_code;
  out.sentences.push_back(std::move(sentence));
}

std::string Supervisor::SentenceOfEnd(Time now, int exit_code) const {
  const std::string after = Spell(now - *began_);
  if (!first_failure_ && WasPreempted(now)) {
    return absl::StrFormat("preempted after %s, exit code %d; %s", after, exit_code,
                           preempted_.Summary());
  }
  if (exit_code == 0) return absl::StrFormat("all %d succeeded in %s", processes_.size(), after);
  std::string what = "failed";
  if (killed_by_interrupt_) {
    what = "interrupted";
  } else if (end_signal_ && !first_failed_ && cause_.empty()) {
    what = absl::StrCat("ended by ", SignalName(*end_signal_));
  } else if (GivesUp(now)) {
    what =
        absl::StrFormat("giving up: the same failure %d times, each soon after the start; failed",
                        SameFailures() + 1);
  }
  return absl::StrFormat("%s after %s, exit code %d", what, after, exit_code);
}

std::string Supervisor::TextForOthers(Time now) const {
  const bool preempted = !first_failure_ && WasPreempted(now);
  return preempted ? absl::StrCat("preempted; ", preempted_.Summary()) : "";
}

RunResult Supervisor::ResultOf(Time now, int exit_code, const std::string& sentence) const {
  RunResult result{.outcome = "failed",
                   .why = sentence,
                   .cause = cause_,
                   .exit_code = exit_code,
                   .attempts = restarts_ + 1,
                   .lasted = now - *began_,
                   .past = past_};
  const bool signalled = end_signal_ && !first_failed_ && cause_.empty();
  if (!first_failure_ && WasPreempted(now)) {
    result.outcome = "preempted";
  } else if (exit_code == 0) {
    result.outcome = "succeeded";
  } else if (killed_by_interrupt_) {
    result.outcome = "interrupted";
  } else if (signalled) {
    result.outcome = "signalled";
  }
  if (first_failed_) {
    result.first_failed = first_failed_->value();
    const auto at = static_cast<size_t>(first_failed_->value() - first_);
    result.cause = Verdict(*first_failed_, processes_[at]);
  }
  for (size_t i = 0; i < processes_.size(); ++i) {
    const Process& process = processes_[i];
    const bool started = process.state != ProcessState::kNotStarted;
    result.processes.push_back(
        {.member = Member(i).value(),
         .pid = process.pid,
         .started = started,
         .ending = process.ending,
         .lasted = started ? process.ended - process.started : absl::ZeroDuration(),
         .error = process.error,
         .last_lines = process.last_lines});
  }
  return result;
}

const Supervisor::Process* Supervisor::FirstEndedWell() const {
  const Process* first = nullptr;
  for (const Process& process : processes_) {
    if (EndedWell(process) && (first == nullptr || process.ended < first->ended)) first = &process;
  }
  return first;
}

// Frameworks fail or wait when a peer is gone, and say nothing of a peer that ended with 0. Whether
// that is the reason nobody here knows, so it is told as what happened. Who was told to end, and
// what ends when somebody was killed, needs no such explanation.
void Supervisor::LookBack(Time now, Effects& out) {
  if (!first_failed_ || told_to_end_) return;
  const bool by_kill = At(*first_failed_).ending.signal == SIGKILL;
  for (Process& process : processes_) {
    if (EndedWell(process)) {
      process.before_failure =
          absl::StrCat(", ", Spell(now - process.ended), " before the first failure",
                       by_kill ? "" : ": the others may have needed it");
    } else if (process.stopped_since) {
      process.before_failure =
          absl::StrCat("; it was stopped by ", SignalName(process.stop_signal), " ",
                       Spell(now - *process.stopped_since), " before the first failure",
                       by_kill ? "" : ": the others may have waited for it");
    }
  }
  const Process* const first = FirstEndedWell();
  if (first == nullptr || by_kill) return;
  const auto count = std::count_if(processes_.begin(), processes_.end(), EndedWell);
  out.sentences.push_back(absl::StrCat(
      EndingText(MemberOf(*first), *first), first->before_failure,
      count == 1 ? "" : absl::StrFormat(" (%d more had ended with exit code 0)", count - 1)));
  told_ended_ = true;
}

Time Supervisor::TellEndedAt() const {
  if (told_ended_ || first_failure_ || told_to_end_ || called_off_ || CountRunning() == 0) {
    return Time::Infinite();
  }
  const Process* const first = FirstEndedWell();
  return first == nullptr ? Time::Infinite() : first->ended + options_.tell_ended;
}

void Supervisor::TellEnded(Time now, Effects& out) {
  told_ended_ = true;
  if (preempted_.Explains(now)) return;
  const Process& first = *FirstEndedWell();
  const int running = CountRunning();
  out.sentences.push_back(absl::StrFormat(
      "%s ended with exit code 0 %s ago, and %d process%s on: if they wait, it may be for that",
      Name(MemberOf(first), first), Spell(now - first.ended), running,
      running == 1 ? " goes" : "es go"));
}

std::string Supervisor::EndingText(MemberIndex member, const Process& process) const {
  const std::string text =
      absl::StrFormat("%s %s after %s", Name(member, process),
                      process.given_up ? "did not end even by SIGKILL" : Describe(process.ending),
                      Spell(process.ended - process.started));
  return process.error.empty() ? text : absl::StrCat(text, ": ", process.error);
}

std::string Supervisor::Verdict(MemberIndex member, const Process& process) const {
  if (process.state == ProcessState::kNotStarted) {
    return absl::StrFormat("%s/%d was not started", options_.role, member.value());
  }
  std::string text = EndingText(member, process);
  if (process.ending.signal != 0 && process.ending.signal == process.sent) {
    absl::StrAppend(&text, " (sent by lockstep run)");
  }
  if (first_failed_ == member) {
    // The others say that they failed by it, and it had not told them that it goes.
    if (process.ending.succeeded()) absl::StrAppend(&text, " without leaving the job");
    return absl::StrCat(text, " <- the first to fail");
  }
  if (first_failed_) absl::StrAppend(&text, process.before_failure);
  return text;
}

}  // namespace lockstep::launch

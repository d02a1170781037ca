#include "lockstep/launch/run_verdict.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::launch {
namespace {

constexpr char kFirst[] = " <- the first to fail";

// Each below the sentence that they follow.
std::string LastLines(const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  return absl::StrCat("; the last that it wrote:\n  | ", absl::StrJoin(lines, "\n  | "));
}

std::string VerdictOn(const ProcessRecord& process, const ProcessTable& processes,
                      const FailureLedger& failure) {
  std::string text = processes.EndingText(process);
  if (process.state == ProcessRecord::State::kNotStarted) return text;
  if (process.ending.signal != 0 && process.ending.signal == process.sent) {
    absl::StrAppend(&text, " (sent by lockstep run)");
  }
  if (failure.member() == process.member) {
    // The others say that they failed by it, and it had not told them that it goes.
    if (process.ending.succeeded()) absl::StrAppend(&text, " without leaving the job");
    return absl::StrCat(text, kFirst);
  }
  return failure.member() ? absl::StrCat(text, process.before_failure) : text;
}

}  // namespace

std::string_view NameOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kSucceeded:
      return "succeeded";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kPreempted:
      return "preempted";
    case Outcome::kInterrupted:
      return "interrupted";
    case Outcome::kSignalled:
      break;
  }
  return "signalled";
}

std::vector<std::string> TableOfEnds(const ProcessTable& processes, const FailureLedger& failure) {
  std::vector<std::string> lines;
  if (!failure.cause().empty()) lines.push_back(absl::StrCat(failure.cause(), kFirst));
  if (failure.member()) {
    const ProcessRecord& first = processes.At(*failure.member());
    lines.push_back(
        absl::StrCat(VerdictOn(first, processes, failure), LastLines(first.last_lines)));
  }
  for (const ProcessRecord& process : processes.all()) {
    if (process.member == failure.member()) continue;
    lines.push_back(VerdictOn(process, processes, failure));
  }
  return lines;
}

RunResult MakeResult(Outcome outcome, int exit_code, absl::Duration lasted, std::string sentence,
                     const ProcessTable& processes, const FailureLedger& failure,
                     const RunHistory& history) {
  RunResult result{.outcome = std::string(NameOf(outcome)),
                   .why = std::move(sentence),
                   .cause = failure.cause(),
                   .exit_code = exit_code,
                   .attempts = history.restarts() + 1,
                   .lasted = lasted,
                   .past = history.failed_attempts()};
  if (failure.member()) {
    result.first_failed = failure.member()->value();
    result.cause = VerdictOn(processes.At(*failure.member()), processes, failure);
  }
  for (const ProcessRecord& process : processes.all()) {
    const bool started = process.state != ProcessRecord::State::kNotStarted;
    result.processes.push_back(
        {.member = process.member.value(),
         .pid = process.pid,
         .started = started,
         .ending = process.ending,
         .lasted = started ? process.ended - process.started : absl::ZeroDuration(),
         .error = process.error,
         .last_lines = process.last_lines});
  }
  return result;
}

}  // namespace lockstep::launch

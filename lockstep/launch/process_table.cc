#include "lockstep/launch/process_table.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"

namespace lockstep::launch {

using State = ProcessRecord::State;

bool ProcessRecord::EndedWell() const {
  const bool over = state == State::kEnded || state == State::kReleased;
  return over && ending.succeeded() && !given_up;
}

bool ProcessRecord::FailedByItself() const {
  return state == State::kReleased && !ending.succeeded() && !given_up &&
         (raised || ending.signal == 0 || ending.signal != sent);
}

Time ProcessRecord::RaiseCountsAt(absl::Duration window) const {
  if (!running() || !raised || raised->reported) return Time::Infinite();
  return raised->at + window;
}

ProcessTable::ProcessTable(std::string role, int32_t first, int32_t size)
    : role_(std::move(role)), first_(first), processes_(static_cast<size_t>(size)) {
  for (ProcessRecord& process : processes_) process.member = MemberIndex(first++);
}

bool ProcessTable::Contains(MemberIndex member) const {
  const int64_t at = int64_t{member.value()} - first_;
  return at >= 0 && at < static_cast<int64_t>(processes_.size());
}

const ProcessRecord& ProcessTable::At(MemberIndex member) const {
  LOCKSTEP_CHECK(Contains(member));
  return processes_[static_cast<size_t>(member.value() - first_)];
}

ProcessRecord& ProcessTable::Find(MemberIndex member) {
  LOCKSTEP_CHECK(Contains(member));
  return processes_[static_cast<size_t>(member.value() - first_)];
}

std::string ProcessTable::Name(const ProcessRecord& process) const {
  return absl::StrFormat("%s/%d (pid %d)", role_, process.member.value(), process.pid);
}

std::string ProcessTable::EndingText(const ProcessRecord& process) const {
  if (process.state == State::kNotStarted) {
    return absl::StrFormat("%s/%d was not started", role_, process.member.value());
  }
  const std::string text =
      absl::StrFormat("%s %s after %s", Name(process),
                      process.given_up ? "did not end even by SIGKILL" : Describe(process.ending),
                      DurationText(process.ended - process.started));
  return process.error.empty() ? text : absl::StrCat(text, ": ", process.error);
}

int ProcessTable::CountRunning() const {
  return static_cast<int>(
      std::count_if(processes_.begin(), processes_.end(),
                    [](const ProcessRecord& process) { return process.running(); }));
}

bool ProcessTable::NoneStarted() const {
  return std::all_of(processes_.begin(), processes_.end(), [](const ProcessRecord& process) {
    return process.state == State::kNotStarted;
  });
}

bool ProcessTable::AllReleased(bool start_failed) const {
  return std::all_of(processes_.begin(), processes_.end(), [&](const ProcessRecord& process) {
    return process.state == State::kReleased ||
           (start_failed && process.state == State::kNotStarted);
  });
}

const ProcessRecord* ProcessTable::FirstEndedWell() const {
  const ProcessRecord* first = nullptr;
  for (const ProcessRecord& process : processes_) {
    if (process.EndedWell() && (first == nullptr || process.ended < first->ended)) first = &process;
  }
  return first;
}

Time ProcessTable::NextDeadline(absl::Duration raised_window, absl::Duration helper_grace) const {
  Time next = Time::Infinite();
  for (const ProcessRecord& process : processes_) {
    if (process.state == State::kEnded) {
      next = std::min(next, process.ended + helper_grace);
    } else if (process.running()) {
      next = std::min({next, process.end_by, process.RaiseCountsAt(raised_window)});
    }
  }
  return next;
}

void ProcessTable::Take(Time now, const ProcessStarted& event, Effects& out) {
  ProcessRecord& process = Find(event.member);
  LOCKSTEP_CHECK(process.state == State::kNotStarted);
  process.state = State::kRunning;
  process.pid = event.pid;
  process.started = now;
  out.reports.push_back({ProcessReport::Kind::kStarted, event.member, event.pid, {}});
}

bool ProcessTable::Take(Time now, const ProcessEnded& event) {
  ProcessRecord& process = Find(event.member);
  if (!process.running()) return false;
  process.state = State::kEnded;
  process.ended = now;
  process.stopped.reset();
  process.ending = event.ending;
  process.last_lines = event.last_lines;
  // The exception that it told of says more than the file that it left.
  if (!process.raised) process.error = event.error;
  return true;
}

void ProcessTable::Take(Time now, const ProcessStopped& event, Effects& out) {
  ProcessRecord& process = Find(event.member);
  if (!process.running()) return;
  process.stopped = {now, event.signal};
  out.reports.push_back({ProcessReport::Kind::kStopped, event.member, process.pid, {}});
  out.sentences.push_back(
      absl::StrFormat("%s was stopped by %s; the others wait for it (kill -CONT -%d lets it go on)",
                      Name(process), SignalName(event.signal), process.pid));
}

void ProcessTable::Take(Time now, const ProcessContinued& event, Effects& out) {
  ProcessRecord& process = Find(event.member);
  // A stop and its end can merge into one wake-up; then there is nothing to take back.
  if (!process.running() || !process.stopped) return;
  out.reports.push_back({ProcessReport::Kind::kContinued, event.member, process.pid, {}});
  out.sentences.push_back(absl::StrFormat("%s goes on after %s", Name(process),
                                          DurationText(now - process.stopped->since)));
  process.stopped.reset();
}

void ProcessTable::Take(Time now, const ExceptionRaised& event) {
  ProcessRecord& process = Find(event.member);
  if (!process.running() || process.pid != event.pid || process.raised) return;
  process.raised = {now};
  process.error = event.text;
}

void ProcessTable::ReportRaised(MemberIndex member, Effects& out) {
  ProcessRecord& process = Find(member);
  if (!process.raised || std::exchange(process.raised->reported, true)) return;
  out.reports.push_back({ProcessReport::Kind::kEnding, member, process.pid, {}, process.error});
}

void ProcessTable::SignalRunning(int signal, Effects& out) {
  for (ProcessRecord& process : processes_) {
    if (!process.running()) continue;
    if (signal != SIGCONT) process.sent = signal;
    out.signals.push_back({process.member, signal});
  }
}

void ProcessTable::ReportEnding(Effects& out) const {
  for (const ProcessRecord& process : processes_) {
    if (!process.running()) continue;
    out.reports.push_back({ProcessReport::Kind::kEnding, process.member, process.pid, {}});
  }
}

bool ProcessTable::GiveUpRunning(Time now, absl::Duration kill_grace, Effects& out) {
  bool any = false;
  for (ProcessRecord& process : processes_) {
    if (!process.running()) continue;
    out.sentences.push_back(
        absl::StrFormat("%s did not end within %s of SIGKILL: it hangs in the kernel, and is left",
                        Name(process), DurationText(kill_grace)));
    process.given_up = true;
    process.ended = now;
    Release(process.member, /*may_start=*/false, out);
    any = true;
  }
  return any;
}

void ProcessTable::PlanRestart(MemberIndex member) {
  ProcessRecord& process = Find(member);
  process.again = true;
  ++process.restarts;
}

void ProcessTable::EndIfOverdue(Time now, MemberIndex member, absl::Duration terminate_grace,
                                Effects& out) {
  ProcessRecord& process = Find(member);
  if (!process.running() || now < process.end_by) return;
  const bool again = process.sent != 0;
  process.sent = again ? SIGKILL : SIGTERM;
  process.end_by = again ? Time::Infinite() : now + terminate_grace;
  out.reports.push_back({ProcessReport::Kind::kEnding, member, process.pid, {}});
  out.signals.push_back({member, process.sent});
}

void ProcessTable::Release(MemberIndex member, bool may_start, Effects& out) {
  ProcessRecord& process = Find(member);
  process.state = State::kReleased;
  out.releases.push_back(member);
  if (!std::exchange(process.again, false) || !may_start) return;
  out.starts.push_back({member, process.restarts});
  process = {.member = member, .restarts = process.restarts};
}

void ProcessTable::ReleaseEnded(Effects& out) {
  for (const ProcessRecord& process : processes_) {
    if (process.state == State::kEnded) Release(process.member, /*may_start=*/false, out);
  }
}

void ProcessTable::LookBack(Time now, bool by_kill) {
  for (ProcessRecord& process : processes_) {
    if (process.EndedWell()) {
      process.before_failure =
          absl::StrCat(", ", DurationText(now - process.ended), " before the first failure",
                       by_kill ? "" : ": the others may have needed it");
    } else if (process.stopped) {
      process.before_failure =
          absl::StrCat("; it was stopped by ", SignalName(process.stopped->signal), " ",
                       DurationText(now - process.stopped->since), " before the first failure",
                       by_kill ? "" : ": the others may have waited for it");
    }
  }
}

}  // namespace lockstep::launch

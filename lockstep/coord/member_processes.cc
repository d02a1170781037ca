#include "lockstep/coord/member_processes.h"

#include <string.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::coord {

std::string DescribeEnd(const ProcessEnded& end) {
  if (end.signal == 0) return absl::StrCat("its process exited with code ", end.exit_code);
  const char* const name = sigabbrev_np(end.signal);
  return absl::StrCat("its process was killed by ",
                      name ? absl::StrCat("SIG", name) : absl::StrCat("signal ", end.signal));
}

void MemberProcesses::Start(Time now, const ProcessStarted& fact, bool alone) {
  ProcessRecord& process = processes_.Mutable(fact.member.value());
  const bool same = process.pid == fact.pid && process.host == fact.host;
  // Nobody told of the end of the one before: another launcher started this one.
  const bool another_run = process.running && !same;
  const bool told_again = process.running && same;
  // The same process, reported again, belongs to the same run as before.
  const bool newer = told_again ? process.newer : another_run || alone;
  // All anew: how the process before ended says nothing of this one.
  process = {.host = fact.host,
             .pid = fact.pid,
             .running = true,
             .newer = newer,
             .since = now,
             .ended = ""};
  newer_run_ = newer_run_ || newer;
}

ProcessRecord* MemberProcesses::FindRunning(MemberIndex member, int64_t pid) {
  const ProcessRecord& process = processes_[member.value()];
  // A report of an older process is late.
  if (process.pid != pid || !process.running) return nullptr;
  return &processes_.Mutable(member.value());
}

bool MemberProcesses::End(Time now, const ProcessEnded& fact) {
  ProcessRecord* const process = FindRunning(fact.member, fact.pid);
  if (process == nullptr) return false;
  process->running = false;
  process->stopped = false;
  process->since = now;
  process->failed = fact.signal != 0 || fact.exit_code != 0;
  process->ended = DescribeEnd(fact);
  return true;
}

bool MemberProcesses::AnnounceEnd(const ProcessEnding& fact) {
  ProcessRecord* const process = FindRunning(fact.member, fact.pid);
  if (process == nullptr) return false;
  process->ending = true;
  // The launcher ends it: no news for people.
  if (fact.error.empty()) return false;
  return !std::exchange(process->raised, true);
}

std::optional<absl::Duration> MemberProcesses::SetStopped(Time now, MemberIndex member, int64_t pid,
                                                          bool stopped) {
  const ProcessRecord& known = processes_[member.value()];
  // Late, or told before.
  if (known.pid != pid || known.stopped == stopped) return std::nullopt;
  ProcessRecord& process = processes_.Mutable(member.value());
  process.stopped = stopped;
  return now - std::exchange(process.since, now);
}

bool MemberProcesses::SetLeftOut(Time now, MemberIndex member, bool left_out) {
  if (processes_[member.value()].left_out == left_out) return false;
  // What was known of its process is of another run.
  processes_.Mutable(member.value()) = {.left_out = left_out, .since = now};
  return true;
}

void MemberProcesses::SomebodyJoined() {
  if (!newer_run_) return;  // looked at for each of many that join
  newer_run_ = false;
  processes_.ForEachWritten([](ProcessRecord& process) { process.newer = false; });
}

void MemberProcesses::BeginAttempt() {
  processes_.ForEachWritten([](ProcessRecord& process) {
    // A process that runs, or is of the newer run, may join the attempt that begins.
    process.former = process.former || (process.pid != 0 && !process.running && !process.newer);
  });
}

bool MemberProcesses::HasNewerRun() const {
  // The flag alone may be stale: such a process may have been replaced.
  return newer_run_ &&
         processes_.AnyWritten([](const ProcessRecord& process) { return process.newer; });
}

bool MemberProcesses::AnyRuns() const {
  return processes_.AnyWritten([](const ProcessRecord& process) {
    return process.running && !process.stopped && !process.left_out;
  });
}

record::ProcessChanged MemberProcesses::RecordOf(MemberIndex member) const {
  const ProcessRecord& process = processes_[member.value()];
  return {.member = member,
          .host = process.host,
          .pid = process.pid,
          .running = process.running,
          .stopped = process.stopped,
          .left_out = process.left_out,
          .failed = process.failed,
          .newer = process.newer,
          .former = process.former};
}

void MemberProcesses::Restore(Time at, const record::ProcessChanged& record) {
  processes_.Mutable(record.member.value()) = {.host = record.host,
                                               .pid = record.pid,
                                               .running = record.running,
                                               .stopped = record.stopped,
                                               .failed = record.failed,
                                               .left_out = record.left_out,
                                               .newer = record.newer,
                                               .former = record.former,
                                               .since = at};
  newer_run_ = newer_run_ || record.newer;
}

}  // namespace lockstep::coord

// The processes of a job's members, as their launchers tell of them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/ids.h"
#include "lockstep/base/lazy_array.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// What the launcher reported of a member's process; all empty when no launcher did.
struct ProcessRecord {
  std::string host;
  int64_t pid = 0;
  bool running = false;
  bool stopped = false;
  bool failed = false;    // of one that has ended, as far as known
  bool ending = false;    // its launcher said that it is about to end
  bool raised = false;    // and by an exception, which was told
  bool left_out = false;  // there is none, and none is awaited: the run is of fewer
  // It was started when nobody was in, and nobody has joined since: it belongs to a newer run than
  // the attempt's members do.
  bool newer = false;
  // It ended before the current attempt began, so it says nothing about that attempt's run.
  bool former = false;
  Time since;         // when that became so
  std::string ended;  // how, as far as this life of the server was told
};

// "its process was killed by SIGKILL".
std::string DescribeEnd(const ProcessEnded& end);

// Holds one process a member: the newest that a launcher reported. A report about an older process
// of the member is late, and changes nothing. The owner records what has changed (`RecordOf`).
//
// Threads: thread-compatible. Bounds: one entry a member of the job; the facts are about members.
class MemberProcesses {
 public:
  explicit MemberProcesses(int32_t size) : processes_(size) {}

  const ProcessRecord& operator[](size_t member) const { return processes_[member]; }
  // Whether any is so of those that were told of; of others it must not hold.
  template <class Is>
  bool AnyWritten(Is is) const {
    return processes_.AnyWritten(is);
  }

  // `alone`: nobody is in the attempt, so that the process belongs to a newer run.
  void Start(Time now, const ProcessStarted& fact, bool alone);
  // Whether the report is about the process that runs; then it has ended.
  bool End(Time now, const ProcessEnded& fact);
  // Its launcher saw that it is about to end. Whether that says for the first time that it raised
  // an exception.
  bool AnnounceEnd(const ProcessEnding& fact);
  // How long it was not so until now; nothing when it is so already, or the report is late.
  std::optional<absl::Duration> SetStopped(Time now, MemberIndex member, int64_t pid, bool stopped);
  // Whether that changed. A member that is left out, or is not any more, has no process.
  bool SetLeftOut(Time now, MemberIndex member, bool left_out);

  // Members came in: the processes are theirs.
  void SomebodyJoined();
  // What ended until now says nothing about the new attempt.
  void BeginAttempt();
  // Whether processes were started that no member of the attempt is of.
  bool HasNewerRun() const;
  // Whether one runs that is not stopped.
  bool AnyRuns() const;

  record::ProcessChanged RecordOf(MemberIndex member) const;
  void Restore(Time at, const record::ProcessChanged& record);

  // What it holds, about as it costs.
  size_t memory() const { return processes_.memory(); }

 private:
  // The member's process when it has this PID and runs, else null.
  ProcessRecord* FindRunning(MemberIndex member, int64_t pid);

  LazyArray<ProcessRecord> processes_;
  bool newer_run_ = false;  // some process may be newer than the attempt's members
};

}  // namespace lockstep::coord

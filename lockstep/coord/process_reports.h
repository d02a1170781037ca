// What launchers report of the processes of a job. Pure.
#pragma once

#include <cstdint>

#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/job_record.h"

namespace lockstep::coord {

// Enters reports into the job's MemberProcesses, records what they change, and writes log entries
// for people. What they mean for the attempt is for the attempt to say.
//
// Threads: thread-compatible. It holds nothing. Reports about no member of the job are ignored.
class ProcessReports {
 public:
  // `job` must outlive it.
  explicit ProcessReports(JobRecord& job) : job_(job) {}

  // `alone`: nobody is in the attempt.
  void Note(Time now, const ProcessStarted& fact, bool alone, Effects& out);
  // Whether that is news to the attempt: the process that the member runs as has ended, or raised
  // an exception and is about to end.
  bool Note(Time now, const ProcessEnded& fact, Effects& out);
  bool Note(const ProcessEnding& fact);
  void Note(Time now, const RunBegan& fact, Effects& out);
  // Stopped by a signal, or continued.
  void NoteStopped(Time now, MemberIndex member, int64_t pid, bool stopped, Effects& out);

 private:
  void Record(MemberIndex member, Effects& out);

  JobRecord& job_;
};

}  // namespace lockstep::coord

// The members of a job as tables show them: by the state that people see, the worst first. Of
// programs that know nothing of Lockstep that is what their processes do. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/wire/native/status_messages.h"

namespace lockstep::observe {

// Launchers told of processes of the job, and none of its members has joined the attempt.
bool OnlyProcesses(const wire::native::JobStatus& job);

// Processes of the newest run that failed while their members say nothing of it: those have not
// come, or had left before. The first to fail first. Not of a run that was preempted and had saved.
std::vector<const wire::native::MemberStatus*> FailedProcesses(const wire::native::JobStatus& job);

// How the newest run stands: as the server says of the attempt, but `failed` when such processes
// failed; and of those that nobody joins from `running`, `failed` or `ended`
// (all of them, well); `waiting` as long as launchers have not started all.
wire::native::AttemptState StandingOf(const wire::native::JobStatus& job);

// The attempt's own state, as the server says it, but `failed` when the newest run has failed.
wire::native::AttemptState StateForPrograms(const wire::native::JobStatus& job);

// "1 lost, 63 connected"; of such processes "1 process failed, 3 processes run, none joined".
std::string StandingText(const wire::native::JobStatus& job);

// Members of one state.
struct MemberGroup {
  std::string state;                                       // "connected"; "process runs"
  bool tells_of_each = false;                              // somebody should look at each of them
  bool of_processes = false;                               // what follows is told of the process
  std::vector<const wire::native::MemberStatus*> members;  // by index; there is one

  // How long the member has been in this state, in microseconds.
  int64_t SinceUs(const wire::native::MemberStatus& member) const;
  // Empty where the state says it all.
  std::string WhyText(const wire::native::MemberStatus& member) const;
};

// All members, each once. They point into `job`.
std::vector<MemberGroup> GroupsByNeed(const wire::native::JobStatus& job);

}  // namespace lockstep::observe

// What `lockstep why` says of programs that know nothing of Lockstep. Pure.
#pragma once

#include "lockstep/observe/why.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::observe {

// Of a job that nobody has joined, but whose processes a launcher told of: which of them failed,
// are stopped or were never started. False: nobody told of any.
bool TellProcesses(const wire::native::JobStatus& job, Diagnosis& out);

// Processes of the newest run failed, and nothing that became of their members says so: they have
// not come, or had left. False, and nothing told, when there are none.
bool TellFailedProcesses(const wire::native::JobStatus& job, Diagnosis& out);

}  // namespace lockstep::observe

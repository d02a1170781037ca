// What `lockstep why` says of preemptions. Pure.
#pragma once

#include "lockstep/observe/why.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::observe {

// Adds the current preemption of the job, or the last one, to what is known of it: who is waited
// for, or how it ended and what to do about that. One that went wrong is trouble; one that goes on
// means waiting.
void TellPreemption(const wire::native::JobStatus& job, Diagnosis& out);

}  // namespace lockstep::observe

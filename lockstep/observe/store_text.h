// Who waits for what in the store that torch's clients of a job use, for people. Pure.
#pragma once

#include <string>

#include "lockstep/observe/why.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::observe {

// Rows of a status: the store, then each awaited key; empty while nobody uses the store.
std::string StoreText(const wire::native::JobStatus& job);

// Whether torch's clients are all that the job has seen: none of its members has registered.
bool OnlyTorch(const wire::native::JobStatus& job);

// Adds a sentence for each key that is waited for, whose it probably is, and what to do.
void TellStore(const wire::native::JobStatus& job, Diagnosis& out);

// Of a job with torch's clients only.
Diagnosis DiagnoseTorch(const wire::native::JobStatus& job);

}  // namespace lockstep::observe

// What `lockstep run` asks the server about a run that fails or is ended, and what it leaves
// behind.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/launch/environment.h"
#include "lockstep/launch/supervisor.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::cli {

// Whether anybody has come into an attempt that began `ago`: a member, or a client of its store.
// Pure.
bool AnybodyJoined(const wire::native::JobStatus& job, absl::Duration ago);

// Whose failure the others followed from, and whether anybody had joined, of an attempt that began
// `ago`. What the server does not tell within a second is absent.
launch::RootCauseTold RootCauseOf(const launch::JobAddress& address, absl::Duration ago);

// Who waits for whom at the job's store just now, in sentences; none when nobody does, or the
// server does not answer within a second.
std::vector<std::string> WhatIsSeenOf(const launch::JobAddress& address);

// A few lines of what `lockstep why` says; none when all is well. Takes a second or two.
std::vector<std::string> WhyItWaits(const launch::JobAddress& address);

// Has `lockstep bundle` write an archive into the folder, which is made. Returns what to say: where
// it is, or why there is none. Takes some seconds at most.
std::string WriteBundle(const launch::JobAddress& address, const std::string& folder);

}  // namespace lockstep::cli

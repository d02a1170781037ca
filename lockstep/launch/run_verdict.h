// What is said of a run that has ended: to people, and to programs. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/launch/failure_ledger.h"
#include "lockstep/launch/process_table.h"
#include "lockstep/launch/run_history.h"
#include "lockstep/launch/supervisor_effects.h"

namespace lockstep::launch {

enum class Outcome { kSucceeded, kFailed, kPreempted, kInterrupted, kSignalled };

// As `RunResult` gives it: "succeeded".
std::string_view NameOf(Outcome outcome);

// How each process of the last attempt ended: what came first stands first, with what it said last.
std::vector<std::string> TableOfEnds(const ProcessTable& processes, const FailureLedger& failure);

// `sentence`: that a person reads last.
RunResult MakeResult(Outcome outcome, int exit_code, absl::Duration lasted, std::string sentence,
                     const ProcessTable& processes, const FailureLedger& failure,
                     const RunHistory& history);

}  // namespace lockstep::launch

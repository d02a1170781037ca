// What `lockstep run` does once its command line is understood.
#pragma once

#include "lockstep/cli/run_options.h"

namespace lockstep::cli {

// Returns the exit code.
int RunJob(const RunOptions& options);

}  // namespace lockstep::cli

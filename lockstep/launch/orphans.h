// Children that we did not start: what was orphaned in a container is given to its process 1.
#pragma once

#include <sys/types.h>

#include "absl/functional/function_ref.h"

namespace lockstep::launch {

// Reaps those that have ended and that `ours` does not claim, without touching the others. Cheap
// when there are none; needed only as process 1.
void ReapOrphans(absl::FunctionRef<bool(pid_t)> ours);

}  // namespace lockstep::launch

// What the environment of a stock JAX process says that never reaches its coordinator. Pure.
#pragma once

#include <optional>

#include "lockstep/launch/environment.h"

namespace lockstep::launch {

// Whether the job is to go on when some of its members have failed, as JAX_ENABLE_RECOVERABILITY
// says it to the coordinator that process 0 starts in its own process. Nothing: not said, or by a
// value that JAX refuses. What is in `extra` counts before what is inherited.
std::optional<bool> JaxRecoverability(const Environment& inherited, const Environment& extra);

}  // namespace lockstep::launch

// The clock that goes on while the machine sleeps.
#pragma once

#include "lockstep/base/time.h"

namespace lockstep::runtime {

// Now, since the machine was started: for what another machine counts on meanwhile, such as a
// lease. Never compare it with MonotonicNow.
Time BootNow();

}  // namespace lockstep::runtime

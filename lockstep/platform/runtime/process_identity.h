// Which process a number means: so that the end of one is never taken for that of another.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace lockstep::runtime {

// Where process numbers mean the same: this boot of this machine, and the namespace. Empty: the
// kernel does not tell.
std::string ProcessMachine();

// When the process started, in ticks since the boot; 0: there is none, or the kernel does not tell.
int64_t ProcessStarted(pid_t pid);

}  // namespace lockstep::runtime

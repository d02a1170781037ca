// How many descriptors the process may have.
#pragma once

#include <cstddef>

namespace lockstep::runtime {

// Raises the soft limit of open files (RLIMIT_NOFILE) to the hard one; false: it stays. Programs of
// ours use poll and epoll, which know no such bound as FD_SETSIZE.
bool RaiseOpenFilesLimit();

// Whether a descriptor that was just opened is one of the last `left_min`, which are for others; of
// a process that may have few, of its last eighth. 0: it is not.
bool LeavesTooFew(int fd, size_t left_min);

}  // namespace lockstep::runtime

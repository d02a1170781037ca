// How many descriptors the process may have.
#pragma once

namespace lockstep::runtime {

// Raises the soft limit of open files (RLIMIT_NOFILE) to the hard one; false: it stays. Programs of
// ours use poll and epoll, which know no such bound as FD_SETSIZE.
bool RaiseOpenFilesLimit();

}  // namespace lockstep::runtime

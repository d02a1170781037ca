// LOCKSTEP_CHECK and LOCKSTEP_DCHECK: for our own mistakes only. What the world may do wrong is
// answered with an error. LOCKSTEP_CHECK is for what costs nothing to look at; LOCKSTEP_DCHECK is
// for invariants of a whole table, checked at the end of a machine's step.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace lockstep::internal {

// Says so on standard error, and ends the process by SIGABRT.
[[noreturn]] inline void CheckFailed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "lockstep: %s:%d: broken invariant: %s\n", file, line, what);
  std::abort();
}

#ifdef LOCKSTEP_CHECK_INVARIANTS  // by cmake/LockstepTargets.cmake: debug and sanitizer builds
inline bool invariants_are_checked = true;
#else
inline bool invariants_are_checked = false;
#endif

}  // namespace lockstep::internal

namespace lockstep {

// Turns LOCKSTEP_DCHECK on for this process: tests and simulations do, whatever they are built for.
// Call it before there are threads. Debug and sanitizer builds have it on from the start.
inline void CheckInvariants() { internal::invariants_are_checked = true; }

}  // namespace lockstep

// Ends the process, in every build type, when `condition` does not hold.
#define LOCKSTEP_CHECK(condition)                                        \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::lockstep::internal::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)

// The same, in debug and sanitizer builds and after CheckInvariants(); otherwise `condition` is not
// evaluated.
#define LOCKSTEP_DCHECK(condition)                                                 \
  do {                                                                             \
    if (::lockstep::internal::invariants_are_checked && !(condition)) [[unlikely]] \
      ::lockstep::internal::CheckFailed(__FILE__, __LINE__, #condition);           \
  } while (false)

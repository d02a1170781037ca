// LOCKSTEP_CHECK: for our own mistakes only. What the world may do wrong is answered with an error.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace lockstep::internal {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "lockstep: %s:%d: broken invariant: %s\n", file, line, what);
  std::abort();
}

}  // namespace lockstep::internal

// Ends the process, in every build type, when `condition` does not hold.
#define LOCKSTEP_CHECK(condition)                                        \
  do {                                                                   \
    if (!(condition)) [[unlikely]]                                       \
      ::lockstep::internal::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)

#include "lockstep/platform/runtime/open_files.h"

#include <sys/resource.h>

#include <algorithm>

namespace lockstep::runtime {

bool RaiseOpenFilesLimit() {
  rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return false;
  if (files.rlim_cur == files.rlim_max) return true;
  files.rlim_cur = files.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &files) == 0;
}

bool LeavesTooFew(int fd, size_t left_min) {
  rlimit files = {};
  if (left_min == 0 || ::getrlimit(RLIMIT_NOFILE, &files) != 0) return false;
  // A new descriptor is the lowest number that is free.
  return static_cast<rlim_t>(fd) >= files.rlim_cur - std::min<rlim_t>(left_min, files.rlim_cur / 8);
}

}  // namespace lockstep::runtime

#include "lockstep/platform/runtime/boot_clock.h"

#include <ctime>

#include "lockstep/base/check.h"

namespace lockstep::runtime {

Time BootNow() {
  timespec now;
  LOCKSTEP_CHECK(::clock_gettime(CLOCK_BOOTTIME, &now) == 0);
  return Time::FromNanoseconds(int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec);
}

}  // namespace lockstep::runtime

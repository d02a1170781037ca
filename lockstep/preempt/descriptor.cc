#include "lockstep/preempt/descriptor.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "absl/time/time.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::preempt {

Waited WaitFor(int fd, short events, int interrupt, Time deadline) {
  LOCKSTEP_DCHECK(fd >= 0 || interrupt >= 0 ||
                  !deadline.is_infinite());  // else it would wait for ever
  for (;;) {
    int timeout = -1;
    if (!deadline.is_infinite()) {
      const absl::Duration left = deadline - runtime::MonotonicNow();
      // Rounded up, so that it is not asked again for the last fraction.
      timeout = static_cast<int>(std::clamp<int64_t>(
          absl::ToInt64Milliseconds(left + absl::Microseconds(999)), 0, 1 << 30));
    }
    pollfd all[] = {{.fd = interrupt, .events = POLLIN}, {.fd = fd, .events = events}};
    const int ready = ::poll(all, 2, timeout);
    if (ready < 0 && errno == EINTR) continue;
    if (all[0].revents != 0) return Waited::kInterrupted;
    if (all[1].revents != 0) return Waited::kReady;
    if (!deadline.is_infinite() && runtime::MonotonicNow() >= deadline) return Waited::kTimedOut;
  }
}

}  // namespace lockstep::preempt

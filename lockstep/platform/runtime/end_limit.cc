#include "lockstep/platform/runtime/end_limit.h"

#include <cstdlib>
#include <utility>

#include "lockstep/base/mutex.h"

namespace lockstep::runtime {

EndLimit::EndLimit(absl::Duration limit, int code, std::function<void()> told)
    : thread_([this, limit, code, told = std::move(told)] {
        if (GoneWithin(limit)) return;
        told();
        std::_Exit(code);
      }) {}

bool EndLimit::GoneWithin(absl::Duration limit) {
  const MutexLock lock(mutex_);
  const WaitLimit until = WaitLimitAfter(limit);
  while (!gone_ && changed_.WaitUntil(mutex_, until)) {
  }
  return gone_;
}

EndLimit::~EndLimit() {
  {
    const MutexLock lock(mutex_);
    gone_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

}  // namespace lockstep::runtime

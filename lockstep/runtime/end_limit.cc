#include "lockstep/runtime/end_limit.h"

#include <cstdlib>
#include <utility>

namespace lockstep::runtime {

EndLimit::EndLimit(absl::Duration limit, int code, std::function<void()> told)
    : thread_([this, limit, code, told = std::move(told)] {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, absl::ToChronoMilliseconds(limit), [this] { return gone_; })) {
          return;
        }
        told();
        std::_Exit(code);
      }) {}

EndLimit::~EndLimit() {
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace lockstep::runtime

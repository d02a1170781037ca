// Calls a function again and again on a thread of its own.
#pragma once

#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "lockstep/base/mutex.h"

namespace lockstep::cli {

// Waits `every`, calls `step`, and begins anew, until it is destroyed.
//
// Threads: constructed and destroyed on one thread. Bounds: one thread, one call at a time.
class Repeater {
 public:
  Repeater(absl::Duration every, std::function<void()> step)
      : thread_([this, every, step = std::move(step)] {
          while (Wait(every)) step();
        }) {}
  // Waits for the step that runs.
  ~Repeater() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    stop_.NotifyAll();
    thread_.join();
  }
  Repeater(const Repeater&) = delete;
  Repeater& operator=(const Repeater&) = delete;

 private:
  // Whether another step is due then.
  bool Wait(absl::Duration every) {
    const MutexLock lock(mutex_);
    const WaitLimit until = WaitLimitAfter(every);
    while (!stopping_ && stop_.WaitUntil(mutex_, until)) {
    }
    return !stopping_;
  }

  Mutex mutex_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace lockstep::cli

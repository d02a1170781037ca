// A thread that goes on while others keep the machine busy.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "lockstep/base/mutex.h"

namespace lockstep::hosts {

// Calls `turn` again and again, until it is destroyed. It asks for a real-time priority, or a
// better one than others have; without the permission it does with what it has.
//
// Threads: made and destroyed on one thread. `turn` must return within kTickEvery or so: the
// destructor waits for it.
class SteadyThread {
 public:
  explicit SteadyThread(std::function<void()> turn);
  ~SteadyThread();
  SteadyThread(const SteadyThread&) = delete;
  SteadyThread& operator=(const SteadyThread&) = delete;

 private:
  bool ending() const;

  const std::function<void()> turn_;
  mutable Mutex mutex_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Keeps the pages of this process in memory from when they are used first, where it may: a host
// that swaps is slow, and not lost.
void KeepInMemory();

}  // namespace lockstep::hosts

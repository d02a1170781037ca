// Mutexes that the compiler checks: ABSL_GUARDED_BY says what a mutex guards, and
// ABSL_EXCLUSIVE_LOCKS_REQUIRED who must hold it; clang -Wthread-safety proves both.
//
// These wrap the standard mutex rather than being absl's, for two reasons. Debian builds absl
// without the thread sanitizer, which then takes everything under an absl::Mutex for a race. And
// waits of that absl (20220623) follow the wall clock: setting the clock would end them early or
// never. Shells only: pure machines have no threads.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace lockstep {

// Not recursive. In a child of `fork` it is as the parent's threads left it, perhaps locked.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  // Named as in the standard, whose locks work with it, too; the compiler checks MutexLock alone.
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }  // by the thread that locked it
  // Tells the compiler what it cannot follow, such as into a lambda that runs under the mutex.
  // Checks nothing at run time.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds the mutex for its scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.lock();  // waits; a thread that holds it waits for ever
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// A point on the steady clock, at which a wait ends.
using WaitLimit = std::chrono::steady_clock::time_point;

// From now on; years away where `duration` is infinite or as long.
inline WaitLimit WaitLimitAfter(absl::Duration duration) {
  constexpr absl::Duration kLongest = absl::Hours(24 * 365);
  return std::chrono::steady_clock::now() +
         absl::ToChronoNanoseconds(duration < kLongest ? duration : kLongest);
}

// Threads wait here for a change to what one mutex guards. A wait may end without a reason, so
// look again:
//   while (!done_) changed_.Wait(mutex_);
//   while (!done_ && changed_.WaitUntil(mutex_, limit)) {}
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Lets go of the mutex while it waits, and holds it again when it returns.
  void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  // False: the limit has passed.
  bool WaitUntil(Mutex& mutex, WaitLimit limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = changed_.wait_until(lock, limit) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void NotifyOne() { changed_.notify_one(); }  // does nothing when none waits
  void NotifyAll() { changed_.notify_all(); }  // after a change that several can use

 private:
  std::condition_variable changed_;
};

}  // namespace lockstep

#include "lockstep/client/loop_driver.h"

#include <utility>

#include "asio/post.hpp"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/fork_guard.h"

namespace lockstep::client {

using Clock = std::chrono::steady_clock;

namespace {

// Of a thread of the library: what it does.
thread_local bool in_callback = false;
thread_local bool drives_here = false;

}  // namespace

void LoopDriver::Post(Function function) {
  asio::post(io(), std::move(function));
  if (!drives_here) parked_ = false;
  // Who runs callbacks drives behind them.
  if (in_callback) return;
  const MutexLock lock(mutex_);
  if (seat_.taken() || !waiters_.empty()) return;
  wanted_ = true;
  library_.NotifyOne();
}

void LoopDriver::Callback(Function function) {
  const MutexLock lock(mutex_);
  callbacks_.Push(std::move(function));
  callbacks_due_ = callbacks_.due();
  if (callbacks_.due() && !drives_here) library_.NotifyOne();
}

bool LoopDriver::InCallback() { return in_callback; }

void LoopDriver::Waiter::Wake() {
  const MutexLock lock(driver_.mutex_);
  ready_ = true;
  changed_.NotifyOne();
}

LoopDriver::Turn::Turn(LoopDriver& driver, Waiter& waiter)
    : driver_(driver), waiter_(waiter), generation_(runtime::ForkGeneration()) {
  const MutexLock lock(driver_.mutex_);
  Enter();
}

LoopDriver::Turn::~Turn() {
  if (generation_ != runtime::ForkGeneration()) return;
  const MutexLock lock(driver_.mutex_);
  Leave();
}

void LoopDriver::Turn::Enter() {
  if (place_) return;
  place_ = driver_.waiters_.insert(driver_.waiters_.end(), &waiter_);
  ++driver_.callers_;
  LOCKSTEP_DCHECK(driver_.callers_ == driver_.waiters_.size());
  drives_ = driver_.seat_.Reserve();
}

void LoopDriver::Turn::Leave() {
  if (!place_) return;
  if (std::exchange(drives_, false)) driver_.seat_.Release();
  driver_.waiters_.erase(*std::exchange(place_, std::nullopt));
  --driver_.callers_;
  LOCKSTEP_DCHECK(driver_.callers_ == driver_.waiters_.size());
  driver_.PassOn();
}

bool LoopDriver::Turn::WaitUntil(Instant until) {
  const MutexLock lock(driver_.mutex_);
  Enter();
  while (!waiter_.ready_) {
    if (until != Instant::max() && Clock::now() >= until) {
      Leave();
      return false;
    }
    if (drives_ || !driver_.seat_.taken()) {
      Drive(until);
    } else if (until == Instant::max()) {
      waiter_.changed_.Wait(driver_.mutex_);
    } else {
      waiter_.changed_.WaitUntil(driver_.mutex_, until);
    }
  }
  return true;
}

void LoopDriver::Turn::Drive(Instant until) {
  LOCKSTEP_DCHECK(drives_ || !driver_.seat_.taken());
  driver_.seat_.BeginDrive(/*library=*/false);
  driver_.mutex_.unlock();
  while (!waiter_.ready_ && (until == Instant::max() || Clock::now() < until)) {
    driver_.loop_.RunSome(until, /*spins=*/true, waiter_.ready_);
  }
  driver_.mutex_.lock();
  drives_ = false;
  driver_.seat_.EndDrive(Clock::now());
  driver_.PassOn();
}

void LoopDriver::PassOn() {
  if (seat_.taken()) return;
  for (Waiter* waiter : waiters_) {
    if (!waiter->ready_) return waiter->changed_.NotifyOne();
  }
  if (!watched_) library_.NotifyOne();
}

void LoopDriver::DriveAsLibrary() {
  wanted_ = false;
  LOCKSTEP_DCHECK(!seat_.taken());
  seat_.BeginDrive(/*library=*/true);
  mutex_.unlock();
  drives_here = true;
  while (callers_ == 0 && !callbacks_due_ && !parked_) {
    loop_.RunSome(Instant::max(), /*spins=*/false, callbacks_due_);
  }
  // What is ready, above all the request of the caller who comes, does not wait for a switch.
  if (callers_ > 0 || parked_) loop_.RunReady();
  drives_here = false;
  mutex_.lock();
  seat_.EndDrive(Clock::now());
  left_.NotifyAll();
  PassOn();
}

void LoopDriver::RunCallbacks() {
  LOCKSTEP_DCHECK(callbacks_.due());  // one thread at a time, so that they come in order
  callbacks_.Begin();
  in_callback = true;
  callbacks_due_ = false;
  // The other one, should this take long.
  if (!seat_.taken() && !watched_) library_.NotifyOne();
  while (Function next = callbacks_.Next()) {
    mutex_.unlock();
    next();
    next = nullptr;  // what it held goes before the lock is taken
    mutex_.lock();
  }
  in_callback = false;
}

// While others come and go one thread looks again after each `kLinger`, or `kLookAgain` while a
// caller drives; while nothing changes it sleeps until it is told, as the other one does all the
// time.
void LoopDriver::Rest(bool lingers, uint64_t& seen) {
  const bool calm = !lingers && seen == seat_.drives();
  seen = seat_.drives();
  if (watched_ || calm) {
    library_.Wait(mutex_);
    return;
  }
  watched_ = true;
  library_.WaitUntil(mutex_, Clock::now() + (lingers ? kLinger : kLookAgain));
  watched_ = false;
}

bool LoopDriver::Park(absl::Duration within) {
  const MutexLock lock(mutex_);
  parked_ = true;
  asio::post(io(), [] {});  // who sleeps in the loop looks up
  const WaitLimit limit = WaitLimitAfter(within);
  const auto left = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !seat_.taken_by_library() && (seat_.taken() || !wanted_);
  };
  while (!left() && left_.WaitUntil(mutex_, limit)) {
  }
  return left();
}

void LoopDriver::RunForever() {
  const MutexLock lock(mutex_);
  bool called = false;
  uint64_t seen = 0;
  while (true) {
    if (callbacks_.due()) {
      RunCallbacks();
      called = true;
      continue;
    }
    const bool free = !seat_.taken() && waiters_.empty() && (!parked_ || wanted_);
    // Behind callbacks it is not left to others.
    if (free && (called || wanted_ || Clock::now() >= seat_.left_at() + kLinger)) {
      DriveAsLibrary();
    } else {
      Rest(free, seen);
    }
    called = false;
  }
}

}  // namespace lockstep::client

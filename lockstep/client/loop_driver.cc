#include "lockstep/client/loop_driver.h"

#include <utility>

#include "asio/post.hpp"
#include "lockstep/runtime/fork_guard.h"

namespace lockstep::client {

using Clock = std::chrono::steady_clock;

// One thread at a time, but not always the same.
LoopDriver::LoopDriver() : io_(1), keep_running_(asio::make_work_guard(io_)) {}

void LoopDriver::Post(Function function) {
  asio::post(io_, std::move(function));
  const std::lock_guard lock(mutex_);
  if (driven_ || !waiters_.empty()) return;
  wanted_ = true;
  own_.notify_one();
}

void LoopDriver::Waiter::Wake() {
  const std::lock_guard lock(driver_.mutex_);
  ready_ = true;
  changed_.notify_one();
}

LoopDriver::Turn::Turn(LoopDriver& driver, Waiter& waiter)
    : driver_(driver), waiter_(waiter), generation_(runtime::ForkGeneration()) {
  const std::lock_guard lock(driver_.mutex_);
  Enter();
}

LoopDriver::Turn::~Turn() {
  if (generation_ != runtime::ForkGeneration()) return;
  const std::lock_guard lock(driver_.mutex_);
  Leave();
}

void LoopDriver::Turn::Enter() {
  if (place_) return;
  place_ = driver_.waiters_.insert(driver_.waiters_.end(), &waiter_);
  ++driver_.callers_;
  drives_ = !std::exchange(driver_.driven_, true);
}

void LoopDriver::Turn::Leave() {
  if (!place_) return;
  if (std::exchange(drives_, false)) driver_.driven_ = false;
  driver_.waiters_.erase(*std::exchange(place_, std::nullopt));
  --driver_.callers_;
  driver_.PassOn();
}

bool LoopDriver::Turn::WaitUntil(Instant until) {
  std::unique_lock lock(driver_.mutex_);
  Enter();
  while (!waiter_.ready_) {
    if (until != Instant::max() && Clock::now() >= until) {
      Leave();
      return false;
    }
    if (drives_ || !driver_.driven_) {
      Drive(lock, until);
    } else if (until == Instant::max()) {
      waiter_.changed_.wait(lock);
    } else {
      waiter_.changed_.wait_until(lock, until);
    }
  }
  return true;
}

void LoopDriver::Turn::Drive(std::unique_lock<std::mutex>& lock, Instant until) {
  asio::io_context& io = driver_.io_;
  driver_.driven_ = true;
  ++driver_.drives_;
  lock.unlock();
  if (until == Instant::max()) {
    while (!waiter_.ready_) io.run_one();
  } else {
    while (!waiter_.ready_ && io.run_one_until(until) > 0) {
    }
  }
  lock.lock();
  driver_.driven_ = drives_ = false;
  driver_.last_driven_ = Clock::now();
  driver_.PassOn();
}

void LoopDriver::PassOn() {
  if (driven_) return;
  for (Waiter* waiter : waiters_) {
    if (!waiter->ready_) return waiter->changed_.notify_one();
  }
  if (std::exchange(asleep_, false)) own_.notify_one();
}

// It looks again after each `kLinger` while callers come and go, and sleeps while one waits long.
void LoopDriver::AwaitOwnTurn(std::unique_lock<std::mutex>& lock) {
  uint64_t seen = drives_;
  while (true) {
    const bool free = !driven_ && waiters_.empty();
    if (free && (wanted_ || Clock::now() >= last_driven_ + kLinger)) return;
    if (!free && seen == drives_) {
      asleep_ = true;
      own_.wait(lock, [this] { return !asleep_; });
    } else {
      seen = drives_;
      own_.wait_for(lock, kLinger);
    }
  }
}

void LoopDriver::RunForever() {
  std::unique_lock lock(mutex_);
  while (true) {
    AwaitOwnTurn(lock);
    wanted_ = false;
    driven_ = true;
    lock.unlock();
    while (callers_ == 0) io_.run_one();
    // What is ready, above all the request of the caller who comes, does not wait for a switch.
    io_.poll();
    lock.lock();
    driven_ = false;
    PassOn();
  }
}

}  // namespace lockstep::client

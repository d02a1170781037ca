#include "lockstep/client/loop_driver.h"

#include <algorithm>
#include <utility>

#include "asio/post.hpp"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/rendezvous/transport/spin.h"

namespace lockstep::client {

using Clock = std::chrono::steady_clock;

namespace {

// Looking at the sockets costs a system call, looking at the clock as much as looking at memory.
constexpr uint64_t kLooksPerPoll = 128;
constexpr int kLooksPerClock = 8;

// Of a thread of the library: what it does.
thread_local bool in_callback = false;
thread_local bool drives_here = false;

}  // namespace

// One thread at a time, but not always the same.
LoopDriver::LoopDriver() : io_(1), keep_running_(asio::make_work_guard(io_)) {}

void LoopDriver::Post(Function function) {
  asio::post(io_, std::move(function));
  if (!drives_here) parked_ = false;
  // Who runs callbacks drives behind them.
  if (in_callback) return;
  const std::lock_guard lock(mutex_);
  if (driven_ || !waiters_.empty()) return;
  wanted_ = true;
  library_.notify_one();
}

void LoopDriver::Callback(Function function) {
  const std::lock_guard lock(mutex_);
  callbacks_.push_back(std::move(function));
  NoteCallbacks();
  if (!calling_ && !drives_here) library_.notify_one();
}

bool LoopDriver::InCallback() { return in_callback; }

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
  driver_.driven_ = true;
  ++driver_.drives_;
  lock.unlock();
  while (!waiter_.ready_ && (until == Instant::max() || Clock::now() < until)) {
    driver_.RunSome(until, driver_.spin_, waiter_.ready_);
  }
  lock.lock();
  driver_.driven_ = drives_ = false;
  driver_.left_at_ = Clock::now();
  driver_.PassOn();
}

void LoopDriver::RunSome(Instant until, std::chrono::nanoseconds spin,
                         const std::atomic<bool>& enough) {
  if (!pollers_.empty()) {
    const Instant spin_until = std::min(until, Clock::now() + spin);
    do {
      for (int look = 0; look < kLooksPerClock; ++look) {
        // The sockets have their turn also while there is always something in memory.
        if (++looks_ % kLooksPerPoll == 0 && io_.poll() > 0) return;
        if (PollAll() || enough) return;
        transport::CpuRelax();
      }
    } while (Clock::now() < spin_until);
    const bool sleeps = std::all_of(pollers_.begin(), pollers_.end(),
                                    [](runtime::Poller* each) { return each->PrepareToSleep(); });
    if (!sleeps) until = Clock::now();
  }
  if (until == Instant::max()) {
    io_.run_one();
  } else {
    io_.run_one_until(until);
  }
  for (runtime::Poller* poller : pollers_) poller->Awake();
}

bool LoopDriver::PollAll() {
  bool any = false;
  for (size_t i = 0; i < pollers_.size(); ++i) any |= pollers_[i]->Poll();
  return any;
}

void LoopDriver::AddPoller(runtime::Poller* poller, absl::Duration spin) {
  pollers_.push_back(poller);
  spin_ = absl::ToChronoNanoseconds(spin);
}

void LoopDriver::RemovePoller(runtime::Poller* poller) { std::erase(pollers_, poller); }

void LoopDriver::PassOn() {
  if (driven_) return;
  for (Waiter* waiter : waiters_) {
    if (!waiter->ready_) return waiter->changed_.notify_one();
  }
  if (!watched_) library_.notify_one();
}

void LoopDriver::DriveAsLibrary(std::unique_lock<std::mutex>& lock) {
  wanted_ = false;
  driven_ = library_drives_ = true;
  ++drives_;
  lock.unlock();
  drives_here = true;
  while (callers_ == 0 && !callbacks_due_ && !parked_) {
    RunSome(Instant::max(), {}, callbacks_due_);
  }
  // What is ready, above all the request of the caller who comes, does not wait for a switch.
  if (callers_ > 0 || parked_) io_.poll();
  drives_here = false;
  lock.lock();
  driven_ = library_drives_ = false;
  left_at_ = Clock::now();
  left_.notify_all();
  PassOn();
}

void LoopDriver::RunCallbacks(std::unique_lock<std::mutex>& lock) {
  calling_ = true;
  in_callback = true;
  NoteCallbacks();
  // The other one, should this take long.
  if (!driven_ && !watched_) library_.notify_one();
  while (!callbacks_.empty()) {
    Function next = std::move(callbacks_.front());
    callbacks_.pop_front();
    lock.unlock();
    next();
    next = nullptr;  // what it held goes before the lock is taken
    lock.lock();
  }
  in_callback = false;
  calling_ = false;
}

// While others come and go one thread looks again after each `kLinger`, or `kLookAgain` while a
// caller drives; while nothing changes it sleeps until it is told, as the other one does all the
// time.
void LoopDriver::Rest(std::unique_lock<std::mutex>& lock, bool lingers, uint64_t& seen) {
  const bool calm = !lingers && seen == drives_;
  seen = drives_;
  if (watched_ || calm) {
    library_.wait(lock);
    return;
  }
  watched_ = true;
  library_.wait_for(lock, lingers ? kLinger : kLookAgain);
  watched_ = false;
}

bool LoopDriver::Park(absl::Duration within) {
  std::unique_lock lock(mutex_);
  parked_ = true;
  asio::post(io_, [] {});  // who sleeps in the loop looks up
  return left_.wait_for(lock, absl::ToChronoNanoseconds(within),
                        [this] { return !library_drives_ && (driven_ || !wanted_); });
}

void LoopDriver::RunForever() {
  std::unique_lock lock(mutex_);
  bool called = false;
  uint64_t seen = 0;
  while (true) {
    if (!callbacks_.empty() && !calling_) {
      RunCallbacks(lock);
      called = true;
      continue;
    }
    const bool free = !driven_ && waiters_.empty() && (!parked_ || wanted_);
    // Behind callbacks it is not left to others.
    if (free && (called || wanted_ || Clock::now() >= left_at_ + kLinger)) {
      DriveAsLibrary(lock);
    } else {
      Rest(lock, free, seen);
    }
    called = false;
  }
}

}  // namespace lockstep::client

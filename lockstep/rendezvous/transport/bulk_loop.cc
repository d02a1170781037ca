#include "lockstep/rendezvous/transport/bulk_loop.h"

#include <chrono>
#include <utility>

#include "asio/post.hpp"
#include "lockstep/rendezvous/transport/spin.h"

namespace lockstep::transport {

void BulkLoop::Post(absl::AnyInvocable<void()> function) {
  asio::post(io_, std::move(function));
  if (!parked_ || InLoop()) return;
  const MutexLock lock(mutex_);
  parked_ = false;
  rests_ = false;
  changed_.NotifyAll();
}

void BulkLoop::RunForever() {
  using Clock = std::chrono::steady_clock;
  const auto spin = absl::ToChronoNanoseconds(SpinBudget());
  while (true) {
    if (busy_ > 0) {
      for (auto until = Clock::now() + spin; busy_ > 0 && !parked_ && Clock::now() < until;) {
        if (io_.poll() > 0) until = Clock::now() + spin;
        CpuRelax();
      }
    }
    if (parked_) {
      io_.poll();
      Rest();
    } else {
      io_.run_one();
    }
  }
}

void BulkLoop::Rest() {
  const MutexLock lock(mutex_);
  rests_ = true;
  changed_.NotifyAll();
  while (rests_) changed_.Wait(mutex_);
}

bool BulkLoop::Park(absl::Duration within) {
  const WaitLimit limit = WaitLimitAfter(within);
  const MutexLock lock(mutex_);
  parked_ = true;
  asio::post(io_, [] {});  // who sleeps in the loop looks up
  while (!rests_ && changed_.WaitUntil(mutex_, limit)) {
  }
  return rests_;
}

}  // namespace lockstep::transport

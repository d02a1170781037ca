#include "lockstep/rendezvous/transport/bulk_loop.h"

#include <chrono>
#include <utility>

#include "asio/post.hpp"
#include "lockstep/rendezvous/transport/spin.h"

namespace lockstep::transport {

void BulkLoop::Post(absl::AnyInvocable<void()> function) {
  asio::post(io_, std::move(function));
  if (!parked_ || InLoop()) return;
  const std::lock_guard lock(mutex_);
  parked_ = false;
  rests_ = false;
  changed_.notify_all();
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
  std::unique_lock lock(mutex_);
  rests_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !rests_; });
}

bool BulkLoop::Park(absl::Duration within) {
  std::unique_lock lock(mutex_);
  parked_ = true;
  asio::post(io_, [] {});  // who sleeps in the loop looks up
  return changed_.wait_for(lock, absl::ToChronoNanoseconds(within), [this] { return rests_; });
}

}  // namespace lockstep::transport

// A timer for one deadline that moves often.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "asio/io_context.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/time.h"

namespace lockstep::client {

// Armed anew only for an earlier deadline: one that rings too early does no harm, and most
// deadlines are never reached. Threads: confined to its loop, but for `RingsTooLate`.
class DeadlineTimer {
 public:
  explicit DeadlineTimer(asio::io_context& io) : timer_(io) {}

  // Whether it is to be armed for this deadline. Any thread.
  bool RingsTooLate(Time due) const { return due.nanoseconds() < armed_ns_; }
  // `ring` is called once then, if `owner`, whose member this is, is still there.
  void Arm(Time due, std::weak_ptr<void> owner, std::function<void()> ring) {
    if (!RingsTooLate(due)) return;
    armed_ns_ = due.nanoseconds();
    timer_.expires_at(
        std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due.nanoseconds())));
    timer_.async_wait(
        [this, owner = std::move(owner), ring = std::move(ring)](const asio::error_code& error) {
          const auto alive = owner.lock();
          if (error || alive == nullptr) return;
          armed_ns_ = Time::Infinite().nanoseconds();
          ring();
        });
  }
  void Cancel() { timer_.cancel(); }

 private:
  asio::steady_timer timer_;
  std::atomic<int64_t> armed_ns_{Time::Infinite().nanoseconds()};
};

}  // namespace lockstep::client

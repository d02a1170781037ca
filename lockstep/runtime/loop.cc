#include "lockstep/runtime/loop.h"

#include <chrono>
#include <utility>

#include "asio/post.hpp"
#include "lockstep/base/check.h"

namespace lockstep::runtime {

Time MonotonicNow() {
  return Time::FromNanoseconds(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

// One thread runs it, which lets Asio leave out its own locks' slow paths.
Loop::Loop() : io_(1), keep_running_(io_.get_executor()) {}

void Loop::Post(Function function) { asio::post(io_, std::move(function)); }

void Loop::Run() {
  std::thread::id nobody;
  LOCKSTEP_CHECK(runner_.compare_exchange_strong(nobody, std::this_thread::get_id()));
  while (io_.run_one() > 0) {
    if (awake_until_ != Time()) StayAwake();
  }
}

void Loop::StayAwake() {
  while (!io_.stopped()) {
    if (io_.poll() > 0) continue;
    if (MonotonicNow() >= awake_until_) break;
    std::this_thread::yield();
  }
  awake_until_ = Time();
}

void Loop::Stop() { io_.stop(); }

void Timer::Arm(Time at, Loop::Function function) {
  Cancel();
  if (at.is_infinite()) return;
  armed_ = std::make_shared<Loop::Function>(std::move(function));
  timer_.expires_at(
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(at.nanoseconds())));
  timer_.async_wait([weak = std::weak_ptr(armed_)](const asio::error_code& error) {
    // Kept alive while it runs: the function may arm this timer again or destroy it.
    if (auto alive = weak.lock(); alive && !error) (*alive)();
  });
}

void Timer::Cancel() {
  armed_.reset();
  timer_.cancel();
}

}  // namespace lockstep::runtime

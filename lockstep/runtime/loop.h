// The one loop of a server or client: everything that a machine decides happens on it.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "asio/io_context.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/time.h"

namespace lockstep::runtime {

// The monotonic clock of this host.
Time MonotonicNow();

// Runs posted functions one after the other on the thread that called `Run`.
//
// Threads: `Post`, `Stop`, `InLoop` are thread-safe; sockets and timers made on `io()` are
// loop-confined. Ownership: must outlive every timer and socket made on it.
class Loop {
 public:
  using Function = absl::AnyInvocable<void()>;

  Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Queues `function` for the loop. In order, per posting thread. What is still queued when the
  // loop stops is destroyed unrun with the loop.
  void Post(Function function);

  // Runs until `Stop`; once only.
  void Run();

  // Until then `Run` asks for what is new instead of sleeping, so that what comes soon does not
  // have to wake the thread, which costs more than most of what is done here. Others who want the
  // core get it meanwhile. On the loop only.
  void StayAwakeUntil(Time until) { awake_until_ = std::max(awake_until_, until); }

  // Makes `Run` return after the function that runs now.
  void Stop();

  bool InLoop() const {
    return runner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  asio::io_context& io() { return io_; }

 private:
  void StayAwake();

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> keep_running_;
  std::atomic<std::thread::id> runner_;
  Time awake_until_;
};

// One pending call at a point in time. Loop-confined. Destroying it cancels.
class Timer {
 public:
  explicit Timer(Loop& loop) : timer_(loop.io()) {}

  // Calls `function` on the loop when `at` has come, soon if it has passed. Replaces what was
  // armed; an infinite time only cancels.
  void Arm(Time at, Loop::Function function);
  void Cancel();

 private:
  asio::steady_timer timer_;
  // Owned here so that an expiry which Asio has queued already finds nothing to call after `Arm`,
  // `Cancel` or destruction.
  std::shared_ptr<Loop::Function> armed_;
};

}  // namespace lockstep::runtime

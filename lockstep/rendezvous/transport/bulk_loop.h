// The loop on which the bytes of long values come and go, so that they are in nobody's way.
#pragma once

#include <atomic>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "asio/executor_work_guard.hpp"
#include "asio/io_context.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/mutex.h"

namespace lockstep::transport {

// Threads: `Post` and `Park` are thread-safe; all else belongs to the one that runs it. Never
// destroyed (ProcessBulkLoop).
class BulkLoop {
 public:
  // Throws std::system_error: there are no descriptors for it.
  BulkLoop() : io_(1), keep_running_(asio::make_work_guard(io_)), poller_(io_) {}

  asio::io_context& io() { return io_; }
  // Whether the caller is on the loop.
  bool InLoop() { return io_.get_executor().running_in_this_thread(); }
  // Runs it on the loop, in order.
  void Post(absl::AnyInvocable<void()> function);

  // On the loop: something is being transferred, or not any more. While there is, the loop looks
  // again and again for a moment before it sleeps.
  void Begin() { ++busy_; }
  void End() { --busy_; }

  // For the one thread that the loop has.
  [[noreturn]] void RunForever();

  // What is ready is done, and then nothing until somebody posts again. At exit, before what the
  // loop's work uses is destroyed. False: it took `within`.
  bool Park(absl::Duration within);

 private:
  void Rest();

  asio::io_context io_;
  const asio::executor_work_guard<asio::io_context::executor_type> keep_running_;
  // Not used: it makes Asio open the descriptors of the loop.
  const asio::steady_timer poller_;
  int busy_ = 0;

  std::atomic<bool> parked_ = false;
  Mutex mutex_;
  bool rests_ ABSL_GUARDED_BY(mutex_) = false;  // until somebody posts
  CondVar changed_;
};

}  // namespace lockstep::transport

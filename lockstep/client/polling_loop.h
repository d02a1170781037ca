// A loop of Asio's that also looks into memory where other processes write.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "asio/executor_work_guard.hpp"
#include "asio/io_context.hpp"
#include "lockstep/platform/runtime/poller.h"

namespace lockstep::client {

// Threads: one at a time runs it, but not always the same; `io` may be posted to from any. Bounds:
// its callers'.
class PollingLoop {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  PollingLoop();

  asio::io_context& io() { return io_; }

  // On the loop: the poller is asked from now on, or not any more. While there is one, `RunSome`
  // spins for this long when it may.
  void Add(runtime::Poller* poller, absl::Duration spin);
  // On the loop, also from within a poller. `spin` stays as the last `Add` said.
  void Remove(runtime::Poller* poller);

  // Does what is ready. When nothing is, and does not become so while it spins (`spins`), sleeps
  // until something is, or it is `until`. Does not sleep once `enough` is seen.
  void RunSome(Instant until, bool spins, const std::atomic<bool>& enough);
  // Does what is ready and does not wait.
  void RunReady() { io_.poll(); }

 private:
  bool PollAll();

  asio::io_context io_;
  const asio::executor_work_guard<asio::io_context::executor_type> keep_running_;
  std::vector<runtime::Poller*> pollers_;
  std::chrono::nanoseconds spin_ = {};
  uint64_t looks_ = 0;
};

}  // namespace lockstep::client

// Who runs the client's loop: a caller who waits for an answer, or else a thread of the library.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>

#include "absl/functional/any_invocable.h"
#include "asio/executor_work_guard.hpp"
#include "asio/io_context.hpp"

namespace lockstep::client {

// The loop of all links of this process. One thread at a time *drives* it: whoever waits in a
// blocking call, so that it sends its request and reads its answer itself, without a switch to
// another thread on either way; the library's own thread when nobody waits. Callers who wait while
// another drives are handed the driving when that one has what it waited for. For a moment
// (`kLinger`) after the last caller the loop is left to the next, who likely comes at once.
//
// What runs on the loop is the library's only, and never waits: a caller lends its time to others
// for the length of a message.
//
// Threads: thread-safe. Never destroyed (client::Threads). Bounds: one entry for each caller.
class LoopDriver {
 public:
  using Function = absl::AnyInvocable<void()>;
  using Instant = std::chrono::steady_clock::time_point;

  static constexpr auto kLinger = std::chrono::milliseconds(1);

  // What a thread waits for: that somebody on the loop wakes it.
  class Waiter {
   public:
    explicit Waiter(LoopDriver& driver) : driver_(driver) {}
    // On the loop; once.
    void Wake();

   private:
    friend class LoopDriver;
    LoopDriver& driver_;
    std::condition_variable changed_;
    std::atomic<bool> ready_ = false;
  };

  // A thread's place among those that wait. To be made before what is waited for is asked for, so
  // that the loop is not taken by another thread meanwhile. A forked child must not touch it, and
  // its end there does not.
  class Turn {
   public:
    Turn(LoopDriver& driver, Waiter& waiter);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // Nobody else drives, and until `WaitUntil` returns nobody else will: what is meant for the loop
    // may be done here.
    bool drives() const { return drives_; }

    // False: it is `until`, and nobody has woken the waiter. Until the next call the loop is left
    // to others then, however long that takes.
    bool WaitUntil(Instant until);
    void Wait() { WaitUntil(Instant::max()); }

   private:
    // With the mutex held.
    void Enter();
    void Leave();
    void Drive(std::unique_lock<std::mutex>& lock, Instant until);

    LoopDriver& driver_;
    Waiter& waiter_;
    const uint64_t generation_;
    bool drives_ = false;
    std::optional<std::list<Waiter*>::iterator> place_;
  };

  LoopDriver();

  asio::io_context& io() { return io_; }
  // Runs it on the loop, in order.
  void Post(Function function);

  // The work of the library's own thread. Does not return.
  [[noreturn]] void RunForever();

 private:
  // With the mutex held.
  void PassOn();
  void AwaitOwnTurn(std::unique_lock<std::mutex>& lock);

  asio::io_context io_;
  const asio::executor_work_guard<asio::io_context::executor_type> keep_running_;
  std::atomic<size_t> callers_ = 0;  // as in `waiters_`

  std::mutex mutex_;  // covers what follows
  std::list<Waiter*> waiters_;
  bool driven_ = false;
  Instant last_driven_;   // by a caller
  uint64_t drives_ = 0;   // of callers
  bool wanted_ = false;   // the own thread is needed at once
  bool asleep_ = false;   // the own thread waits until it is told
  std::condition_variable own_;
};

}  // namespace lockstep::client

// Who runs the client's loop and its callbacks: a caller who waits for an answer, or else one of
// the two threads of the library.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "asio/executor_work_guard.hpp"
#include "asio/io_context.hpp"
#include "lockstep/platform/runtime/poller.h"

namespace lockstep::client {

// The loop of all links of this process. One thread at a time *drives* it: whoever waits in a
// blocking call, so that it sends its request and reads its answer itself, without a switch to
// another thread on either way; a thread of the library when nobody waits. Callers who wait while
// another drives are handed the driving when that one has what it waited for. For a moment
// (`kLinger`) after the last caller the loop is left to the next, who likely comes at once. It may
// take `kLookAgain` until the library sees that callers, who came and went, do not come any more:
// each look costs a switch, which a caller who waits for a millisecond each time would pay for.
//
// What runs on the loop is the library's only, and never waits: a caller lends its time to others
// for the length of a message. Callbacks are the program's and may take their time. So the two
// threads of the library are alike: the one that drove when a callback became due runs it, again
// without a switch, and if that takes longer than `kLinger` the other one drives.
//
// Threads: thread-safe. Never destroyed (ProcessLoop). Bounds: one entry for each caller; the
// callbacks, each of which belongs to a call or a watch, are bounded with those.
class LoopDriver {
 public:
  using Function = absl::AnyInvocable<void()>;
  using Instant = std::chrono::steady_clock::time_point;

  static constexpr auto kLinger = std::chrono::milliseconds(1);
  static constexpr auto kLookAgain = std::chrono::milliseconds(4);

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
    // Nobody else drives, and until `WaitUntil` returns nobody else will: what is meant for the
    // loop may be done here.
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

  // On the loop: it is asked from now on, or not any more. While there is one, a caller who waits
  // looks again and again for `spin` before the loop sleeps.
  void AddPoller(runtime::Poller* poller, absl::Duration spin);
  void RemovePoller(runtime::Poller* poller);
  // Runs it on the loop, in order.
  void Post(Function function);

  // Runs it on a thread of the library's, in order, one at a time.
  void Callback(Function function);
  static bool InCallback();

  // The work of each of the library's threads. Does not return.
  [[noreturn]] void RunForever();

  // What is ready is done, and then no thread of the library drives until somebody posts again or
  // waits. At exit, before what the loop's work uses is destroyed. False: it took `within`.
  bool Park(absl::Duration within);

 private:
  // With the mutex held.
  void PassOn();
  void NoteCallbacks() { callbacks_due_ = !callbacks_.empty() && !calling_; }
  void DriveAsLibrary(std::unique_lock<std::mutex>& lock);
  // On the loop: does what is ready. When nothing is, and does not become so while it `spins`,
  // sleeps until something is, or it is `until`.
  void RunSome(Instant until, std::chrono::nanoseconds spin, const std::atomic<bool>& enough);
  bool PollAll();
  void RunCallbacks(std::unique_lock<std::mutex>& lock);
  void Rest(std::unique_lock<std::mutex>& lock, bool lingers, uint64_t& seen);

  asio::io_context io_;
  const asio::executor_work_guard<asio::io_context::executor_type> keep_running_;
  // The loop's.
  std::vector<runtime::Poller*> pollers_;
  std::chrono::nanoseconds spin_ = {};
  uint64_t looks_ = 0;

  std::atomic<size_t> callers_ = 0;  // as in `waiters_`
  std::atomic<bool> callbacks_due_ = false;
  std::atomic<bool> parked_ = false;

  std::mutex mutex_;  // covers what follows
  std::list<Waiter*> waiters_;
  bool driven_ = false;
  bool library_drives_ = false;  // then it is driven
  Instant left_at_;              // when the loop was last left to whoever comes next
  uint64_t drives_ = 0;          // how often somebody began to drive
  bool wanted_ = false;          // a thread of the library is needed at once
  bool watched_ = false;         // one of them looks again soon
  std::deque<Function> callbacks_;
  bool calling_ = false;
  std::condition_variable library_;
  std::condition_variable left_;  // by the library
};

}  // namespace lockstep::client

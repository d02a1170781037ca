// Who runs the client's loop and its callbacks: a caller who waits for an answer, or else one of
// the two threads of the library.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "asio/io_context.hpp"
#include "lockstep/base/mutex.h"
#include "lockstep/client/polling_loop.h"
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
  using Instant = WaitLimit;

  static constexpr auto kLinger = std::chrono::milliseconds(1);     // left to the next caller
  static constexpr auto kLookAgain = std::chrono::milliseconds(4);  // until the library looks again

  // What a thread waits for: that somebody on the loop wakes it.
  class Waiter {
   public:
    explicit Waiter(LoopDriver& driver) : driver_(driver) {}
    // On the loop; once.
    void Wake();

   private:
    friend class LoopDriver;
    LoopDriver& driver_;
    CondVar changed_;
    std::atomic<bool> ready_ = false;
  };

  // A thread's place among those that wait. To be made before what is waited for is asked for, so
  // that the loop is not taken by another thread meanwhile. A forked child must not touch it, and
  // its end there does not.
  class Turn {
   public:
    // Takes its place, and the loop where that is free. Both outlive it.
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
    // Until the waiter is woken, however long that takes.
    void Wait() { WaitUntil(Instant::max()); }

   private:
    void Enter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex_);
    void Leave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex_);
    // Lets go of the mutex meanwhile.
    void Drive(Instant until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_.mutex_);

    LoopDriver& driver_;
    Waiter& waiter_;
    const uint64_t generation_;
    bool drives_ = false;
    std::optional<std::list<Waiter*>::iterator> place_;
  };

  asio::io_context& io() { return loop_.io(); }

  // On the loop: it is asked from now on, or not any more. While there is one, a caller who waits
  // looks again and again for `spin` before the loop sleeps.
  void AddPoller(runtime::Poller* poller, absl::Duration spin) { loop_.Add(poller, spin); }
  // On the loop: from its return on the poller may be destroyed.
  void RemovePoller(runtime::Poller* poller) { loop_.Remove(poller); }
  // Runs it on the loop, in order.
  void Post(Function function);

  // Runs it on a thread of the library's, in order, one at a time.
  void Callback(Function function);
  // Whether this thread runs a callback: it must not wait for the end of one.
  static bool InCallback();

  // The work of each of the library's threads. Does not return.
  [[noreturn]] void RunForever();

  // What is ready is done, and then no thread of the library drives until somebody posts again or
  // waits. At exit, before what the loop's work uses is destroyed. False: it took `within`.
  bool Park(absl::Duration within);

 private:
  // Who drives the loop, and how that has changed.
  class Seat {
   public:
    // Also by a caller that has reserved it and does not drive yet.
    bool taken() const { return driver_ != Driver::kNobody; }
    bool taken_by_library() const { return driver_ == Driver::kLibrary; }
    // When the loop was last left to whoever comes next.
    Instant left_at() const { return left_at_; }
    // How often somebody began to drive.
    uint64_t drives() const { return drives_; }

    // For a caller, who drives once it waits. False: it is taken.
    bool Reserve() {
      if (taken()) return false;
      driver_ = Driver::kCaller;
      return true;
    }
    // Gives a reserved seat back without having driven.
    void Release() { driver_ = Driver::kNobody; }
    // On a seat that is free, or that this caller reserved.
    void BeginDrive(bool library) {
      driver_ = library ? Driver::kLibrary : Driver::kCaller;
      ++drives_;
    }
    // For a while from `now` on the loop is left to the next caller.
    void EndDrive(Instant now) {
      driver_ = Driver::kNobody;
      left_at_ = now;
    }

   private:
    enum class Driver { kNobody, kCaller, kLibrary };
    Driver driver_ = Driver::kNobody;
    Instant left_at_;
    uint64_t drives_ = 0;
  };

  // The callbacks that are due, which one thread runs, in order.
  class CallbackQueue {
   public:
    // Runs behind those that are here; `due` says whether a thread has to be woken for it.
    void Push(Function function) { functions_.push_back(std::move(function)); }
    // A thread is to run them.
    bool due() const { return !functions_.empty() && !running_; }
    bool running() const { return running_; }
    // For the thread that runs them, when they are `due`: none else is to begin.
    void Begin() { running_ = true; }
    // Null: there is none, and `Begin` comes before the next one.
    Function Next() {
      if (functions_.empty()) {
        running_ = false;
        return nullptr;
      }
      Function next = std::move(functions_.front());
      functions_.pop_front();
      return next;
    }

   private:
    std::deque<Function> functions_;
    bool running_ = false;
  };

  void PassOn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // These let go of the mutex meanwhile.
  void DriveAsLibrary() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunCallbacks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Rest(bool lingers, uint64_t& seen) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  PollingLoop loop_;  // of whoever drives

  // What a thread of the library that drives looks at without the mutex.
  std::atomic<size_t> callers_ = 0;  // as in `waiters_`
  std::atomic<bool> callbacks_due_ = false;
  std::atomic<bool> parked_ = false;

  Mutex mutex_;
  std::list<Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);
  Seat seat_ ABSL_GUARDED_BY(mutex_);
  bool wanted_ ABSL_GUARDED_BY(mutex_) = false;   // a thread of the library is needed at once
  bool watched_ ABSL_GUARDED_BY(mutex_) = false;  // one of them looks again soon
  CallbackQueue callbacks_ ABSL_GUARDED_BY(mutex_);
  CondVar library_;
  CondVar left_;  // by the library
};

}  // namespace lockstep::client

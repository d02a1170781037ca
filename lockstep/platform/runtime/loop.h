// The one loop of a server or client: everything that a machine decides happens on it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "asio/io_context.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/time.h"

namespace lockstep::runtime {

// The monotonic clock of this host.
Time MonotonicNow();

// The most that one source of work should do before it lets the others have a turn: a link, a
// connection, a table that is being listed. It posts the rest of its work to the loop.
class TurnBudget {
 public:
  static constexpr absl::Duration kTime = absl::Milliseconds(1);  // of one turn

  // `steps_max` bounds what is too cheap for the clock to notice.
  explicit TurnBudget(size_t steps_max = SIZE_MAX) : steps_left_(steps_max) {}

  // To be asked after each step.
  bool Spent() { return --steps_left_ == 0 || MonotonicNow() >= until_; }

 private:
  size_t steps_left_;
  const Time until_ = MonotonicNow() + kTime;
};

// How long the turns of a loop last. A turn is one handler: while it runs, nothing else does.
//
// The loop reads the thread's CPU clock at most once a millisecond, since that is a system call.
// What it tells is therefore up to a millisecond too long, and leaves out time in which the turn
// slept or the machine ran something else.
//
// Threads: `Turned` is the loop's; the rest is thread-safe.
class TurnWatch {
 public:
  // Of which `longest` forgets what is older than two.
  static constexpr absl::Duration kWindow = absl::Seconds(60);

  // A turn, or a wait and a turn, is over.
  void Turned();

  uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }  // since the loop began
  // In the last one to two windows.
  absl::Duration longest() const;
  // Forgets the turns so far: for tests.
  void Reset();

 private:
  Time last_;        // the end of the turn before
  Time cpu_read_;    // when the CPU clock was read
  int64_t cpu_ = 0;  // what it said, in nanoseconds
  Time window_began_;
  std::atomic<uint64_t> turns_ = 0;
  std::atomic<int64_t> longest_now_ = 0;  // nanoseconds, as is the next
  std::atomic<int64_t> longest_before_ = 0;
};

// Runs posted functions one after the other on the thread that called `Run`.
//
// Threads: `Post`, `Stop`, `InLoop` are thread-safe; sockets and timers made on `io()` are
// loop-confined. Ownership: must outlive every timer and socket made on it.
class Loop {
 public:
  using Function = absl::AnyInvocable<void()>;  // runs once, on the loop; destroyed there

  // Runs nothing before `Run`.
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

  // Whether the caller is on the thread that runs the loop.
  bool InLoop() const {
    return runner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  asio::io_context& io() { return io_; }             // for sockets; only one thread runs it
  const TurnWatch& turns() const { return turns_; }  // for `status` and metrics
  TurnWatch& turns() { return turns_; }              // to `Reset` them

 private:
  void StayAwake();

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> keep_running_;
  std::atomic<std::thread::id> runner_;
  Time awake_until_;
  TurnWatch turns_;
};

// Calls `step` until it returns false, in as many turns of the loop as that takes; at once, for a
// start. On the loop, and what `step` uses outlives the loop.
void RunInTurns(Loop& loop, absl::AnyInvocable<bool()> step);

// One pending call at a point in time. Loop-confined. Destroying it cancels.
class Timer {
 public:
  explicit Timer(Loop& loop) : timer_(loop.io()) {}

  // Calls `function` on the loop when `at` has come, soon if it has passed. Replaces what was
  // armed; an infinite time only cancels.
  void Arm(Time at, Loop::Function function);
  void Cancel();  // what was armed does not run; does nothing when nothing was

 private:
  asio::steady_timer timer_;
  // Owned here so that an expiry which Asio has queued already finds nothing to call after `Arm`,
  // `Cancel` or destruction.
  std::shared_ptr<Loop::Function> armed_;
};

}  // namespace lockstep::runtime

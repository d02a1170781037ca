// What every shell of this client does around its machine: it lives on the loop of the process,
// lets callers wait, has one timer, calls back into the program, and ends.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "asio/error_code.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/base/mutex.h"
#include "lockstep/base/time.h"
#include "lockstep/client/call.h"
#include "lockstep/client/loop_driver.h"

namespace lockstep::client {

// A member of the shell that it serves, the owner, which outlives what it has on the loop: what the
// owner posts holds the owner.
//
// To end: stop taking calls; `RunOnLoop` what lets go of links; `WaitForCallbacks`. Then nothing of
// the owner runs any more.
//
// Threads: thread-safe but for what says "on the loop". Bounds: one callback for each call or watch
// of the owner.
class ClientShell {
 public:
  // `forked_off`: "a member of job 'j', which stays its parent's", and what to do; for `Forked`.
  explicit ClientShell(std::string forked_off);
  ClientShell(const ClientShell&) = delete;
  ClientShell& operator=(const ClientShell&) = delete;

  LoopDriver& loop() const { return loop_; }

  // False in a forked child: nothing of the owner may be touched there, nor destroyed.
  bool here() const;
  // FAILED_PRECONDITION (forked): of calls in a forked child.
  absl::Status Forked() const;

  // Blocks until the waiter of `turn` is woken, or until `deadline`, and asks `interrupted` (may be
  // null) every 50 ms. OK: woken, or in time no more; the caller knows which. Else what
  // `interrupted` said, or `Forked`: `interrupted` may fork, in Python for instance.
  absl::Status Wait(LoopDriver::Turn& turn, Time deadline, const Interrupted& interrupted) const;

  // --- The timer ---

  // Nobody would look before `due`.
  bool RingsTooLate(Time due) const { return due.nanoseconds() < armed_ns_; }
  // On the loop: calls `ring(owner)` there at `due`, unless the timer rings earlier. Whoever is
  // rung asks the machine for its next deadline: ringing too early does no harm, and most deadlines
  // are never reached.
  template <class Owner, class Ring>
  void ArmTimer(Time due, std::weak_ptr<Owner> owner, Ring ring);
  // On the loop.
  void CancelTimer() { timer_.cancel(); }

  // --- Callbacks into the program ---

  // A callback will come: `WaitForCallbacks` waits for it from now on.
  void ExpectCallback();
  // Runs one that was expected, on a thread of the library.
  void Callback(absl::AnyInvocable<void()> function);
  // Returns when none is expected or running. At once on a thread that runs one: it would wait for
  // itself.
  void WaitForCallbacks();

  // Runs it on the loop and returns when it is done. Not from the loop.
  void RunOnLoop(absl::FunctionRef<void()> function);

 private:
  // Shared with the callbacks, which may be the last to hold the owner.
  struct Callbacks {
    Mutex mutex;
    CondVar none;
    size_t open ABSL_GUARDED_BY(mutex) = 0;  // expected or running
  };

  const uint64_t generation_;
  const std::string forked_off_;
  LoopDriver& loop_;
  const std::shared_ptr<Callbacks> callbacks_;
  asio::steady_timer timer_;
  std::atomic<int64_t> armed_ns_;  // set on the loop
};

template <class Owner, class Ring>
void ClientShell::ArmTimer(Time due, std::weak_ptr<Owner> owner, Ring ring) {
  if (!RingsTooLate(due)) return;
  armed_ns_ = due.nanoseconds();
  timer_.expires_at(WaitLimit(std::chrono::nanoseconds(due.nanoseconds())));
  timer_.async_wait(
      [this, due, owner = std::move(owner), ring = std::move(ring)](const asio::error_code& error) {
        const auto held = owner.lock();
        // One that was armed for an earlier time meanwhile rings for this one, too.
        if (error || held == nullptr || armed_ns_ != due.nanoseconds()) return;
        armed_ns_ = Time::Infinite().nanoseconds();
        ring(*held);
      });
}

}  // namespace lockstep::client

#include "lockstep/client/client_shell.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/client/threads.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

// How often a blocked caller looks whether it is interrupted.
constexpr auto kInterruptedEvery = std::chrono::milliseconds(50);

WaitLimit LimitOf(Time deadline) {
  if (deadline.is_infinite()) return WaitLimit::max();
  return WaitLimit(std::chrono::nanoseconds(deadline.nanoseconds()));
}

}  // namespace

ClientShell::ClientShell(std::string forked_off)
    : generation_(runtime::ForkGeneration()),
      forked_off_(std::move(forked_off)),
      loop_(ProcessLoop()),
      callbacks_(std::make_shared<Callbacks>()),
      timer_(loop_.io()),
      armed_ns_(Time::Infinite().nanoseconds()) {}

bool ClientShell::here() const { return generation_ == runtime::ForkGeneration(); }

absl::Status ClientShell::Forked() const {
  return wire::native::WithReason(
      absl::FailedPreconditionError(
          absl::StrCat("this process (pid ", ::getpid(), ") was forked off ", forked_off_)),
      "forked");
}

absl::Status ClientShell::Wait(LoopDriver::Turn& turn, Time deadline,
                               const Interrupted& interrupted) const {
  const WaitLimit limit = LimitOf(deadline);
  while (true) {
    WaitLimit next = limit;
    if (interrupted) next = std::min(next, std::chrono::steady_clock::now() + kInterruptedEvery);
    if (turn.WaitUntil(next)) return absl::OkStatus();
    if (interrupted) {
      absl::Status status = interrupted();
      if (!here() && status.ok()) return Forked();
      if (!status.ok()) return status;
    }
    if (next == limit) return absl::OkStatus();
  }
}

void ClientShell::ExpectCallback() {
  const MutexLock lock(callbacks_->mutex);
  ++callbacks_->open;
}

void ClientShell::Callback(absl::AnyInvocable<void()> function) {
  loop_.Callback([callbacks = callbacks_, function = std::move(function)]() mutable {
    function();
    function = nullptr;  // what it held goes before anybody hears that it is over
    const MutexLock lock(callbacks->mutex);
    LOCKSTEP_CHECK(callbacks->open > 0);
    if (--callbacks->open == 0) callbacks->none.NotifyAll();
  });
}

void ClientShell::WaitForCallbacks() {
  if (LoopDriver::InCallback()) return;
  const MutexLock lock(callbacks_->mutex);
  while (callbacks_->open > 0) callbacks_->none.Wait(callbacks_->mutex);
}

void ClientShell::RunOnLoop(absl::FunctionRef<void()> function) {
  struct {
    Mutex mutex;
    CondVar changed;
    bool done ABSL_GUARDED_BY(mutex) = false;
  } run;
  loop_.Post([&] {
    function();
    // Under the mutex, since `run` goes when it is done.
    const MutexLock lock(run.mutex);
    run.done = true;
    run.changed.NotifyAll();
  });
  const MutexLock lock(run.mutex);
  while (!run.done) run.changed.Wait(run.mutex);
}

}  // namespace lockstep::client

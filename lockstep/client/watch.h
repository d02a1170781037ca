// A watch: a call that is made again with what it brought, pulled or called back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "lockstep/base/mutex.h"
#include "lockstep/client/typed.h"

namespace lockstep::client {

// `Result` is what each round brings. Threads: thread-safe. Ownership: shared between the public
// watch and the call that is open; `Stop` before letting go.
template <class Result>
class Watch : public std::enable_shared_from_this<Watch<Result>> {
 public:
  // The call for what comes after that revision or version, and where to go on after a result.
  using Ask = std::function<Typed<Result>(int64_t after, absl::Duration timeout)>;
  using After = int64_t (*)(const Result&);

  Watch(std::weak_ptr<Engine> engine, int64_t after, Ask ask, After after_of)
      : engine_(std::move(engine)), ask_(std::move(ask)), after_of_(after_of), after_(after) {}

  // Blocks. FAILED_PRECONDITION: `call_open`, `session_closed`, `forked`; CANCELLED (cancelled): it
  // was stopped. After any other error the next one goes on where this one began.
  absl::StatusOr<Result> Next(const CallOptions& options) {
    if (absl::Status begun = Begin(); !begun.ok()) return begun;
    return End(Run(engine_.lock(), ask_(after(), options.timeout), options.interrupted,
                   [this](const Pending& pending) { Started(pending); }));
  }

  // `done` gets what `Next` returns, on a thread of the library; it may ask for the next one.
  Pending NextAsync(const CallOptions& options, Completion<Result> done) {
    const auto self = this->shared_from_this();
    if (absl::Status begun = Begin(); !begun.ok()) {
      Engine::CallBackWithoutEngine(
          [done = std::move(done), begun = std::move(begun)]() mutable { done(begun); });
      return Pending();
    }
    Pending pending = Start(engine_.lock(), ask_(after(), options.timeout),
                            [self, done = std::move(done)](absl::StatusOr<Result> result) mutable {
                              done(self->End(std::move(result)));
                            });
    Started(pending);
    return pending;
  }

  // Calls `changed` for each result until `Stop` or an error.
  void CallBack(std::function<void(absl::StatusOr<Result>)> changed) {
    const auto self = this->shared_from_this();
    NextAsync({}, [self, changed = std::move(changed)](absl::StatusOr<Result> result) mutable {
      {
        const MutexLock lock(self->mutex_);
        if (self->stopped_) return;
        self->calling_ = true;
      }
      const bool goes_on = result.ok();
      changed(std::move(result));
      {
        const MutexLock lock(self->mutex_);
        self->calling_ = false;
        self->called_.NotifyAll();
        if (self->stopped_ || !goes_on) return;
      }
      self->CallBack(std::move(changed));
    });
  }

  // Ends what is open, and waits for a callback that runs, unless called by one. In a forked child:
  // nothing.
  void Stop() {
    Pending open;
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
      open = open_;
    }
    if (const auto engine = engine_.lock(); engine == nullptr || !engine->here()) return;
    open.Cancel();
    if (Engine::InCallback()) return;
    const MutexLock lock(mutex_);
    while (calling_) called_.Wait(mutex_);
  }

 private:
  absl::Status Begin() {
    const auto engine = engine_.lock();
    if (engine == nullptr) return Gone();
    if (!engine->here()) return engine->Forked();
    const MutexLock lock(mutex_);
    if (stopped_) return Stopped();
    if (asking_) {
      return wire::native::WithReason(
          absl::FailedPreconditionError("this watch is asked already: one Next at a time"),
          "call_open");
    }
    asking_ = true;
    return absl::OkStatus();
  }

  void Started(const Pending& pending) {
    {
      const MutexLock lock(mutex_);
      open_ = pending;
      if (!stopped_) return;
    }
    pending.Cancel();
  }

  absl::StatusOr<Result> End(absl::StatusOr<Result> result) {
    const MutexLock lock(mutex_);
    asking_ = false;
    if (result.ok()) after_ = after_of_(*result);
    if (!result.ok() && stopped_) return Stopped();
    return result;
  }

  int64_t after() {
    const MutexLock lock(mutex_);
    return after_;
  }

  static absl::Status Stopped() {
    return wire::native::WithReason(absl::CancelledError("the watch was stopped"), "cancelled");
  }

  const std::weak_ptr<Engine> engine_;
  const Ask ask_;
  const After after_of_;

  Mutex mutex_;
  CondVar called_;
  int64_t after_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool asking_ ABSL_GUARDED_BY(mutex_) = false;
  bool calling_ ABSL_GUARDED_BY(mutex_) = false;
  Pending open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::client

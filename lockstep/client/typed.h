// From a request's message to its caller's result, for both forms of a call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/client/call.h"
#include "lockstep/client/engine.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {

// A request, and what its reply means to the caller.
template <class T>
struct Typed {
  Request request;
  absl::AnyInvocable<absl::StatusOr<T>(Engine::Answer&&)> read;
};

// The field in which the server is told how long the caller waits; 0: the message has none.
template <class Message>
constexpr uint32_t TimeoutField() {
  if constexpr (requires { Message::kTimeoutField; }) {
    return Message::kTimeoutField;
  } else {
    return 0;
  }
}

// `convert` turns a decoded reply into the result.
template <class T, class Message, class Convert>
Typed<T> MakeTyped(const Message& message, CallType type, absl::Duration timeout, std::string what,
                   Convert convert) {
  using Reply = typename link::KindOf<Message>::Reply;
  return {.request = {.kind = link::KindOf<Message>::kKind,
                      .type = type,
                      .payload = wire::native::Encode(message),
                      .timeout_field = TimeoutField<Message>(),
                      .timeout = timeout,
                      .what = std::move(what)},
          .read = [convert = std::move(convert)](Engine::Answer&& answer) -> absl::StatusOr<T> {
            if (!answer.ok()) return answer.status();
            auto reply = wire::native::Decode<Reply>(*std::move(answer));
            if (!reply.ok()) return reply.status();
            return convert(*std::move(reply));
          }};
}

inline absl::Status Gone() {
  return wire::native::WithReason(
      absl::FailedPreconditionError("the member or session that this came from was destroyed"),
      "session_closed");
}

template <class T>
absl::StatusOr<T> Run(const std::shared_ptr<Engine>& engine, Typed<T> typed,
                      const Interrupted& interrupted,
                      const std::function<void(Pending)>& started = nullptr) {
  if (engine == nullptr) return Gone();
  return typed.read(engine->Call(std::move(typed.request), interrupted, started));
}

// `done`: anything that takes an absl::StatusOr<T>.
template <class T, class Done>
Pending Start(const std::shared_ptr<Engine>& engine, Typed<T> typed, Done done) {
  if (engine == nullptr) {
    Engine::CallBackWithoutEngine([done = std::move(done)]() mutable { done(Gone()); });
    return Pending();
  }
  return engine->CallAsync(std::move(typed.request),
                           [read = std::move(typed.read), done = std::move(done)](
                               Engine::Answer&& answer) mutable { done(read(std::move(answer))); });
}

// Calls that follow each other and are cancelled as one.
class Chain {
 public:
  // `start` starts the next call, which may be over, and the one after it begun, before `start`
  // returns.
  template <class Start>
  void Begin(const Start& start) {
    uint64_t link = 0;
    {
      const MutexLock lock(mutex_);
      link = ++begun_;
    }
    const Pending pending = start();
    {
      const MutexLock lock(mutex_);
      if (link != begun_) return;
      current_ = pending;
      if (!cancelled_) return;
    }
    pending.Cancel();
  }
  // The call that is under way gets CANCELLED; one that begins later, at once.
  void Cancel() {
    Pending current;
    {
      const MutexLock lock(mutex_);
      cancelled_ = true;
      current = current_;
    }
    current.Cancel();
  }
  // Cancels whichever call of the chain is under way then.
  static Pending PendingOf(std::shared_ptr<Chain> chain) {
    return Pending([chain = std::move(chain)] { chain->Cancel(); });
  }

 private:
  Mutex mutex_;
  Pending current_ ABSL_GUARDED_BY(mutex_);
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::client

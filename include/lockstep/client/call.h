// What all calls of the client have in common. Public.
//
// Each call that waits has two forms. The blocking one returns the result; it can be called from
// any thread, also from a completion. The asynchronous one (`...Async`) returns at once; its
// completion is called exactly once, with the result, on a thread of the library, never with a lock
// held, and never two at once. A completion that takes long delays other completions, and nothing
// else.
#pragma once

#include <functional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace lockstep {

namespace client {
template <class T>
struct CompletionOf {
  using Type = absl::AnyInvocable<void(absl::StatusOr<T>)>;
};
template <>
struct CompletionOf<void> {
  using Type = absl::AnyInvocable<void(absl::Status)>;
};
}  // namespace client

// What an asynchronous call is given to call back.
template <class T>
using Completion = typename client::CompletionOf<T>::Type;

// Asked every 50 ms by the thread that waits in a blocking call; a status other than OK ends the
// wait with it. For languages that look for Ctrl-C themselves. Null: not asked.
using Interrupted = std::function<absl::Status()>;

struct CallOptions {
  // Of the whole call. When it is over: DEADLINE_EXCEEDED, with who is missing if the server knows.
  absl::Duration timeout = absl::InfiniteDuration();
  Interrupted interrupted = nullptr;  // of the blocking form
};

// A call on its way. Copies are about the same call; dropping them does not cancel it.
// Thread-safe.
class Pending {
 public:
  Pending() = default;

  // The completion gets CANCELLED, unless the answer was quicker. What the call does at the server
  // may or may not have happened.
  void Cancel() const;

  // For the library.
  explicit Pending(std::function<void()> cancel) : cancel_(std::move(cancel)) {}

 private:
  std::function<void()> cancel_;
};

}  // namespace lockstep

// The failure of a session, and the program's callback that is to hear of it.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace lockstep::client {

// Either may come first; the callback that is set hears of the failure once. Callbacks are returned
// for the caller to run, since its mutex is held here.
//
// Threads: thread-compatible. Bounds: one of each.
class FailureNotice {
 public:
  using Callback = std::function<void(absl::Status)>;
  // What to run now; null: nothing.
  using Run = absl::AnyInvocable<void()>;

  // Null: nothing hears of it from now on. A later one takes the place of an earlier one.
  Run SetCallback(Callback callback) {
    callback_ = std::move(callback);
    return Due();
  }
  // At most once.
  Run Fail(absl::Status why) {
    failure_ = std::move(why);
    return Due();
  }

 private:
  Run Due() const {
    if (callback_ == nullptr || !failure_) return nullptr;
    return [callback = callback_, failure = *failure_] { callback(failure); };
  }

  Callback callback_;
  std::optional<absl::Status> failure_;
};

}  // namespace lockstep::client

// A question to the server that is asked once, and waited for until a deadline. Pure.
#pragma once

#include <variant>

#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::launch {

// Threads: thread-compatible.
class AskOnce {
 public:
  // Whether the answer is still waited for. The first call sets `ask`, and the wait ends `timeout`
  // later; who answers ends it at once.
  bool Awaits(Time now, absl::Duration timeout, bool& ask) {
    if (std::holds_alternative<Answered>(state_)) return false;
    if (const auto* asked = std::get_if<Asked>(&state_)) return now < asked->until;
    state_ = Asked{now + timeout};
    ask = true;
    return true;
  }
  // Also before it was asked: then it never is.
  void Answer() { state_ = Answered(); }
  bool answered() const { return std::holds_alternative<Answered>(state_); }
  // Until when the answer is waited for; infinite: it is not.
  Time deadline() const {
    const auto* asked = std::get_if<Asked>(&state_);
    return asked != nullptr ? asked->until : Time::Infinite();
  }

 private:
  struct Unasked {};
  struct Asked {
    Time until;
  };
  struct Answered {};

  std::variant<Unasked, Asked, Answered> state_;
};

}  // namespace lockstep::launch

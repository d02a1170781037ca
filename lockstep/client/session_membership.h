// What a session knows of its part in the job: whether it has joined, left, or failed. Pure.
#pragma once

#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "lockstep/client/session_call.h"

namespace lockstep::client {

//   Outside --Join--> Joined --Leave--> Left
//
// The failure of the attempt, or the loss of the server, is told beside that, once. A member asks
// the server for it all the time (`poll`): the answer to that request is the failure.
//
// Threads: thread-compatible. Bounds: none grows.
class SessionMembership {
 public:
  // False again once it has left; a failure does not change it.
  bool joined() const { return std::holds_alternative<Joined>(state_); }
  // The server is to be asked for failures and to hear that the member lives.
  bool reports() const { return joined() && failure_.ok(); }

  // The server has answered the join with success.
  void Join() { state_ = Joined{}; }
  // From now on every call is refused with `why`.
  void Leave(absl::Status why) { state_ = Left{std::move(why)}; }
  // False: it has failed before, and the first failure stays.
  bool Fail(const absl::Status& why) {
    if (!failure_.ok()) return false;
    failure_ = why;
    return true;
  }
  // OK, or why a call of this type is not begun: the member has left, or the wait would never end.
  absl::Status WhyRefused(CallType type) const {
    if (const auto* left = std::get_if<Left>(&state_)) return left->why;
    return type == CallType::kWait ? failure_ : absl::OkStatus();
  }

  // The request for the failure is sent under this number.
  RequestNumber Poll(RequestNumber request) { return poll_ = request; }
  // True: it was the answer to that request.
  bool TakePollAnswer(RequestNumber request) {
    if (request == 0 || request != poll_) return false;
    poll_ = 0;
    return true;
  }
  // The poll has no answer to expect; it is sent anew on the next link.
  void LinkLost() { poll_ = 0; }

 private:
  struct Outside {};
  struct Joined {};
  struct Left {
    absl::Status why;
  };

  std::variant<Outside, Joined, Left> state_;
  absl::Status failure_;  // root cause
  RequestNumber poll_ = 0;
};

}  // namespace lockstep::client

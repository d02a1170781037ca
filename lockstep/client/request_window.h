// How many requests a session has on its link, of those that the server takes at a time. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>

#include "lockstep/base/check.h"
#include "lockstep/client/session_call.h"

namespace lockstep::client {

// Threads: thread-compatible. Bounds: `max`.
class RequestWindow {
 public:
  // requests_in_flight_max of the server.
  size_t max() const { return max_; }
  // Of the link that has just become ready; may be less than there are in flight.
  void SetMax(size_t max) { max_ = max; }

  // For a call. Some room is left for the session's own requests, heartbeats and the poll.
  bool HasRoom() const { return in_flight_ < (max_ > 2 * kOwnRequests ? max_ - kOwnRequests : 1); }
  // So many calls may park, and leave room for those that end them.
  size_t parked_max() const { return max_ - std::min(max_ / 2, kRequestsBesideWaits); }

  // Also one of the session's own, which `HasRoom` leaves room for.
  void Sent() { ++in_flight_; }
  // A request that was `Sent`, and not abandoned.
  void Answered() {
    LOCKSTEP_DCHECK(in_flight_ > 0);
    --in_flight_;
  }
  // Nobody waits for its answer any more, which takes up room until it comes.
  void Abandon(RequestNumber request) {
    abandoned_.insert(request);
    LOCKSTEP_DCHECK(abandoned_.size() <= in_flight_);
  }
  // True: it was the answer to a request that was abandoned.
  bool TakeAbandoned(RequestNumber request) {
    if (abandoned_.erase(request) == 0) return false;
    Answered();
    return true;
  }
  // No answer comes any more, also none to abandoned requests.
  void LinkLost() {
    in_flight_ = 0;
    abandoned_.clear();
  }

 private:
  static constexpr size_t kOwnRequests = 8;
  static constexpr size_t kRequestsBesideWaits = 128;

  size_t max_ = 1024;  // until the server says what it takes
  size_t in_flight_ = 0;
  std::set<RequestNumber> abandoned_;
};

}  // namespace lockstep::client

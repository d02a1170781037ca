// Whether a store has rested: nobody was connected to it for a while. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "lockstep/base/check.h"
#include "lockstep/base/time.h"

namespace lockstep::tcpstore {

// Counts connections, and remembers a rest until somebody makes use of it: a client that only looks
// in does not end it.
//
// Threads: thread-compatible.
class ConnectionRest {
 public:
  // From the last connection's end to the next one's begin: at least `rest`.
  explicit ConnectionRest(absl::Duration rest) : rest_(rest) {}

  // A connection: the first after a long enough rest makes `TakeRested` true.
  void Came(Time now) {
    if (connections_++ == 0 && left_at_ && now - *left_at_ >= rest_) rested_ = true;
  }
  // One that came; the last of them begins a rest.
  void Left(Time now) {
    LOCKSTEP_DCHECK(connections_ > 0);
    // Until a rest is made use of, it goes on.
    if (--connections_ == 0 && !rested_) left_at_ = now;
  }
  bool none_here() const { return connections_ == 0; }

  // Whether there was a rest that nobody has made use of yet; from now on there was none.
  bool TakeRested() { return std::exchange(rested_, false); }

  // Nobody has ever been here.
  void Clear() {
    connections_ = 0;
    left_at_.reset();
    rested_ = false;
  }

 private:
  const absl::Duration rest_;
  size_t connections_ = 0;
  std::optional<Time> left_at_;  // by the last
  bool rested_ = false;
};

}  // namespace lockstep::tcpstore

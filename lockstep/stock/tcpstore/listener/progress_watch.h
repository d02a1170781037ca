// Looks at regular intervals which connections make no progress.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/stock/tcpstore/listener/connection_table.h"

namespace lockstep::net {

// Looks twice in the time-out, so that no connection stands still for longer than one and a half of
// it. Without connections it does not look.
//
// Threads: loop-confined.
class ProgressWatch {
 public:
  using ConnectionPtr = ConnectionTable::ConnectionPtr;
  using Stalled = std::function<void(const ConnectionPtr&, const std::string& why)>;

  // `connections` outlives it. `stalled` closes the connection.
  ProgressWatch(runtime::Loop& loop, absl::Duration timeout, const ConnectionTable& connections,
                Stalled stalled)
      : timeout_(timeout), connections_(connections), stalled_(std::move(stalled)), timer_(loop) {}

  // There is a connection. Looks from now on, unless it does so already.
  void Start() {
    if (!std::exchange(watches_, true)) Look();
  }
  // For the end: looks no more, also when connections come.
  void Stop() { timer_.Cancel(); }

 private:
  void Look() {
    for (const auto& [connection, why] : connections_.CheckProgress()) stalled_(connection, why);
    watches_ = !connections_.empty();
    if (watches_) timer_.Arm(runtime::MonotonicNow() + timeout_ / 2, [this] { Look(); });
  }

  const absl::Duration timeout_;
  const ConnectionTable& connections_;
  const Stalled stalled_;
  bool watches_ = false;  // the timer is armed
  runtime::Timer timer_;
};

}  // namespace lockstep::net

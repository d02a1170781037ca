// Until when each new connection has to say its first word.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/stock/tcpstore/listener/torch_store_connection.h"

namespace lockstep::net {

// One timer for all connections, since all have the same time.
//
// Threads: loop-confined. Bounds: connections that have come within the time-out.
class GreetingDeadlines {
 public:
  using ConnectionPtr = TorchStoreConnection::Ptr;

  // `late` gets each connection that is open and has not said VALIDATE after `timeout`.
  GreetingDeadlines(runtime::Loop& loop, absl::Duration timeout,
                    std::function<void(const ConnectionPtr&)> late)
      : timeout_(timeout), late_(std::move(late)), timer_(loop) {}

  // It has come now.
  void Add(const ConnectionPtr& connection);
  // Nobody is late any more.
  void Stop() { timer_.Cancel(); }

 private:
  void Check();

  const absl::Duration timeout_;
  const std::function<void(const ConnectionPtr&)> late_;
  std::deque<std::pair<Time, std::weak_ptr<TorchStoreConnection>>> came_;  // the oldest first
  runtime::Timer timer_;
};

}  // namespace lockstep::net

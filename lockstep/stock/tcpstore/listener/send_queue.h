// Connections that have answers to send.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "lockstep/base/check.h"
#include "lockstep/stock/tcpstore/listener/torch_store_connection.h"

namespace lockstep::net {

// Gathers connections while a step is under way, so that all answers that the step causes leave a
// connection in one piece when it ends.
//
// Threads: loop-confined. Bounds: each connection is in it once.
class SendQueue {
 public:
  using ConnectionPtr = TorchStoreConnection::Ptr;
  using Send = std::function<void(const ConnectionPtr&)>;

  // `send` may add connections, which then are sent to as well.
  explicit SendQueue(Send send) : send_(std::move(send)) {}

  // It has something to be sent. Does nothing for one that is here, or whose socket has no room.
  void Add(const ConnectionPtr& connection) {
    if (connection->QueueToSend()) waiting_.push_back(connection);
  }

  // From here to `EndStep` nothing is sent. Steps nest; the outermost counts.
  void BeginStep() { ++steps_; }
  // The outermost sends to all that were added meanwhile.
  void EndStep() {
    LOCKSTEP_DCHECK(steps_ > 0);
    --steps_;
    Flush();
  }

  // Sends to all, unless a step is under way.
  void Flush() {
    if (steps_ > 0) return;
    // A connection that is dropped meanwhile may cause answers to others: they are appended.
    ++steps_;
    for (size_t i = 0; i < waiting_.size(); ++i) {
      const ConnectionPtr connection = waiting_[i];
      if (connection->LeaveQueue()) send_(connection);
    }
    --steps_;
    waiting_.clear();
  }

  // What was to be sent stays unsent.
  void Clear() { waiting_.clear(); }

 private:
  const Send send_;
  std::vector<ConnectionPtr> waiting_;
  int steps_ = 0;
};

}  // namespace lockstep::net

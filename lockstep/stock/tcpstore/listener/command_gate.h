// Whether commands are taken now, and which connections wait for that.
#pragma once

#include <utility>
#include <vector>

#include "lockstep/stock/tcpstore/listener/torch_store_connection.h"

namespace lockstep::net {

// While it is shut, connections with whole commands are held up here; what else they send waits in
// their sockets, and at last at the clients.
//
// Threads: loop-confined. Bounds: each connection is in it once.
class CommandGate {
 public:
  using ConnectionPtr = TorchStoreConnection::Ptr;

  bool shut() const { return shut_; }
  // The caller stops taking commands, and holds up connections that are idle.
  void Shut() { shut_ = true; }

  // Keeps an idle connection until `Open`. Only while it is shut.
  void HoldUp(const ConnectionPtr& connection) {
    connection->HoldUp();
    held_up_.push_back(connection);
  }

  // Opens, and returns those that were held up, the first one first: they may go on, some of them
  // may be closed.
  std::vector<ConnectionPtr> Open() {
    shut_ = false;
    for (const ConnectionPtr& connection : held_up_) connection->GoOn();
    return std::exchange(held_up_, {});
  }

  // Lets go of those that are held up: none of them goes on.
  void Clear() { held_up_.clear(); }

 private:
  bool shut_ = false;
  std::vector<ConnectionPtr> held_up_;
};

}  // namespace lockstep::net

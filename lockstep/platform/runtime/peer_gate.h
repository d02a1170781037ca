// Whom a listener serves: at an address that only this host reaches, the users that are allowed.
#pragma once

#include "absl/status/status.h"
#include "asio/ip/tcp.hpp"
#include "lockstep/platform/runtime/peer_owner.h"

namespace lockstep::runtime {

// Asks the kernel whose each connection is (OwnerOfPeer), where the kernel knows: at an address of
// the loopback interface. Elsewhere it lets everybody in. Threads: thread-compatible.
class PeerGate {
 public:
  PeerGate(const asio::ip::tcp::endpoint& listens, AllowedPeers allowed);

  // Of a connected socket that was accepted there. PERMISSION_DENIED: it is not served, and the log
  // should say so: whose it is, and who is served. CANCELLED: the other end has gone already.
  absl::Status Check(int socket) const;

  const AllowedPeers& allowed() const { return allowed_; }

 private:
  asio::ip::tcp::endpoint listens_;
  AllowedPeers allowed_;
  bool asks_ = false;
};

}  // namespace lockstep::runtime

// Which attempt a connection registered with, for clients whose requests do not say it. Pure.
//
// Nothing but the connection tells a late call of an old attempt from one of the current attempt in
// the older family of clients: most requests name a member, but not its life, and those on keys
// name nobody at all. See docs/decisions/0009-attempts-of-the-older-clients.md.
#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "lockstep/base/ids.h"

namespace lockstep::net {

// Connections by the name of their other end. Bounds: `connections_max`; the one that registered
// longest ago is forgotten first, and acts on the current attempt from then on.
class RegisteredConnections {
 public:
  explicit RegisteredConnections(size_t connections_max) : connections_max_(connections_max) {}

  // The last registration over a connection counts: a process that begins anew does so over the
  // connection that it has.
  void Registered(const std::string& peer, ServiceIncarnation service);

  // A new connection has this name now.
  void Forget(const std::string& peer);

  // What the caller over this connection acts on; `current` when it has not registered over it.
  ServiceIncarnation Find(const std::string& peer, ServiceIncarnation current) const;

  size_t size() const { return attempts_.size(); }  // connections that it knows of

 private:
  const size_t connections_max_;
  absl::flat_hash_map<std::string, ServiceIncarnation> attempts_;
  std::deque<std::string> oldest_;  // at most twice as many; some of them forgotten already
};

}  // namespace lockstep::net

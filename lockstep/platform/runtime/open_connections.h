// Counts the connections that were handed to other owners, and says which limit one more breaks.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include "asio/ip/address.hpp"
#include "lockstep/base/time.h"

namespace lockstep::runtime {

// The new owners do not say when they close a connection. So `Count` looks at each descriptor, and
// a limit that seems reached is believed after such a look, or within a second of one.
//
// Threads: thread-compatible. Bounds: its limits; one entry for each connection below them.
class OpenConnections {
 public:
  struct Limits {
    size_t connections_max = 0;  // 0: nothing is counted
    size_t connections_per_host_max = 0;
  };

  explicit OpenConnections(Limits limits) : limits_(limits) {}

  // A connection from `host` was handed over.
  void Add(int fd, const asio::ip::address& host);

  // The limit that one more connection from `host` would break: "connections_max" or
  // "connections_per_host_max"; empty: none.
  std::string_view LimitReached(Time now, const asio::ip::address& host);

  // Looks which are still open, and returns how many.
  size_t Count();

  // As of the last look, and what was added since.
  size_t size() const { return handed_.size(); }
  // How many of them come from this host.
  size_t From(const asio::ip::address& host) const;

 private:
  // The inode tells a connection from whatever has its number once its owner has closed it.
  struct Handed {
    int fd;
    ino_t inode;
    asio::ip::address host;
  };
  std::string_view Reached(const asio::ip::address& host) const;

  const Limits limits_;
  std::vector<Handed> handed_;
  std::map<asio::ip::address, size_t> from_;  // how many of them; none has 0
  Time next_count_;
};

}  // namespace lockstep::runtime

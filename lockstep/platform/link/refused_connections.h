// Connections that a server has no place for, until each has been told so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "lockstep/platform/link/channel.h"
#include "lockstep/platform/link/connection.h"
#include "lockstep/platform/link/frame.h"
#include "lockstep/platform/link/options.h"

namespace lockstep::link {

// Tells each when it has said hello: then it is known whether it speaks TLS, and that stands. Who
// says none ends with the greeting's time-out.
//
// Threads: loop-confined (to `io`). Bounds: `max`; LinkOptions for each.
class RefusedConnections {
 public:
  // `accept_secure` as of Server::Options.
  RefusedConnections(asio::io_context& io, LinkOptions options, Channel::AcceptLayer accept_secure,
                     size_t max)
      : io_(io), options_(options), accept_secure_(std::move(accept_secure)), max_(max) {}
  ~RefusedConnections() { Abandon(); }
  RefusedConnections(const RefusedConnections&) = delete;
  RefusedConnections& operator=(const RefusedConnections&) = delete;

  // `last` is what it is told, and `why` says it to people. Closed without a word when there are
  // `max` already; then, and when it has gone meanwhile, its address is not known: empty.
  std::string Add(asio::ip::tcp::socket socket, const Message& last, const std::string& why);

  // Ends all of them at once.
  void Abandon();

 private:
  using Table = absl::flat_hash_map<uint64_t, std::shared_ptr<Connection>>;

  asio::io_context& io_;
  const LinkOptions options_;
  const Channel::AcceptLayer accept_secure_;
  const size_t max_;
  uint64_t last_ = 0;
  // Shared with what the connections call, which may come after the end.
  const std::shared_ptr<Table> table_ = std::make_shared<Table>();
};

}  // namespace lockstep::link

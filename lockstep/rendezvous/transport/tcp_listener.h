// Listening for TCP connections of other members.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "asio/io_context.hpp"
#include "asio/ip/tcp.hpp"
#include "asio/steady_timer.hpp"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/peer_gate.h"

namespace lockstep::transport {

// The address of this host from which `other` is reached: a number, on the loopback when that is
// there. Looks a name up, and so may block.
absl::StatusOr<std::string> LocalHostTowards(const runtime::Address& other);

// Listens on a port that the system chooses; closed in forked children, as what it accepts. Hands
// over sockets that do not block. At an address of the loopback interface it takes connections of
// this process's user and of root, and closes others (PeerGate). Threads: loop-confined.
class TcpListener : public std::enable_shared_from_this<TcpListener> {
 public:
  using Accepted = std::function<void(asio::ip::tcp::socket)>;
  // Whose connection was closed, and why: a sentence for the log.
  using Refused = std::function<void(const std::string& why)>;

  // `host`: as `LocalHostTowards` says. `refused`: may be null.
  static absl::StatusOr<std::shared_ptr<TcpListener>> Start(asio::io_context& io,
                                                            const std::string& host,
                                                            Accepted accepted,
                                                            Refused refused = nullptr);
  ~TcpListener();
  // Accepts nobody any more. Again: nothing.
  void Close();

  // HOST:PORT
  const std::string& address() const { return address_; }

 private:
  TcpListener(asio::io_context& io, asio::ip::tcp::acceptor acceptor, Accepted accepted,
              Refused refused);
  void Wait();
  void Ready();
  void Take(int fd);

  asio::io_context& io_;
  asio::ip::tcp::acceptor acceptor_;
  const std::string address_;
  const runtime::PeerGate gate_;
  asio::steady_timer pause_;
  Accepted accepted_;
  Refused refused_;
};

}  // namespace lockstep::transport

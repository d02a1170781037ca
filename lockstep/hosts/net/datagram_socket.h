// A socket for packets: sends without waiting, waits with an end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "asio/io_context.hpp"
#include "asio/ip/address.hpp"
#include "asio/ip/udp.hpp"
#include "lockstep/base/time.h"
#include "lockstep/platform/runtime/boot_clock.h"

namespace lockstep::hosts {

// The clock of the machines of this folder's parent.
using runtime::BootNow;

// UDP. Loss is no error: neither of what cannot be sent, nor of what nobody takes.
//
// Threads: thread-compatible; moved only while nobody uses it.
class DatagramSocket {
 public:
  using Endpoint = asio::ip::udp::endpoint;

  // At that address of this host; the unspecified one of IPv6 takes IPv4 as well. Port 0: the
  // system chooses. UNAVAILABLE: the address cannot be had.
  static absl::StatusOr<DatagramSocket> Open(const asio::ip::address& host, uint16_t port);

  uint16_t port() const { return port_; }
  // Returns when something can be received, or after `at_most`.
  void Wait(absl::Duration at_most);
  // Nothing: nothing is there. Cuts off what is longer than kDatagramBytesMax + 1.
  std::optional<std::pair<std::string, Endpoint>> Receive();
  void Send(const std::string& datagram, const Endpoint& to);

 private:
  DatagramSocket(std::unique_ptr<asio::io_context> io, asio::ip::udp::socket socket, bool mapped);

  std::unique_ptr<asio::io_context> io_;
  asio::ip::udp::socket socket_;
  bool mapped_;  // addresses of IPv4 are written as ones of IPv6
  uint16_t port_ = 0;
};

// As "10.0.0.2:7070" or "[fd00::2]:7070", and back; nothing: it is no such text.
std::string ToText(const DatagramSocket::Endpoint& endpoint);
std::optional<DatagramSocket::Endpoint> ToEndpoint(const std::string& text);

}  // namespace lockstep::hosts

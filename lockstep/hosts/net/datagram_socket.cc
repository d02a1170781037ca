#include "lockstep/hosts/net/datagram_socket.h"

#include <poll.h>

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "asio/buffer.hpp"
#include "asio/ip/v6_only.hpp"
#include "lockstep/hosts/packets.h"

namespace lockstep::hosts {
namespace {

using asio::ip::udp;

constexpr int kBufferBytes = 4 << 20;

udp::endpoint Unmapped(const udp::endpoint& endpoint) {
  const asio::ip::address& address = endpoint.address();
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return endpoint;
  return {asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()), endpoint.port()};
}

udp::endpoint Mapped(const udp::endpoint& endpoint) {
  if (!endpoint.address().is_v4()) return endpoint;
  return {asio::ip::make_address_v6(asio::ip::v4_mapped, endpoint.address().to_v4()),
          endpoint.port()};
}

}  // namespace

DatagramSocket::DatagramSocket(std::unique_ptr<asio::io_context> io, udp::socket socket,
                               bool mapped)
    : io_(std::move(io)), socket_(std::move(socket)), mapped_(mapped) {}

absl::StatusOr<DatagramSocket> DatagramSocket::Open(const asio::ip::address& host, uint16_t port) {
  auto io = std::make_unique<asio::io_context>();
  const udp::endpoint at(host, port);
  const bool mapped = host.is_v6() && host.is_unspecified();
  udp::socket socket(*io);
  asio::error_code error;
  socket.open(at.protocol(), error);
  if (!error && mapped) socket.set_option(asio::ip::v6_only(false), error);
  // As much of it as the system allows: many may come while nobody looks.
  asio::error_code ignored;
  if (!error) socket.set_option(asio::socket_base::receive_buffer_size(kBufferBytes), ignored);
  if (!error) socket.bind(at, error);
  if (!error) socket.non_blocking(true, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot have a UDP socket at ", ToText(at), ": ", error.message()));
  }
  DatagramSocket made(std::move(io), std::move(socket), mapped);
  made.port_ = made.socket_.local_endpoint(error).port();
  return made;
}

void DatagramSocket::Wait(absl::Duration at_most) {
  pollfd waits{.fd = socket_.native_handle(), .events = POLLIN, .revents = 0};
  const auto milliseconds =
      std::clamp<int64_t>(absl::ToInt64Milliseconds(at_most), 0, std::numeric_limits<int>::max());
  // Whatever it returns, the caller looks.
  static_cast<void>(::poll(&waits, 1, static_cast<int>(milliseconds)));
}

std::optional<std::pair<std::string, DatagramSocket::Endpoint>> DatagramSocket::Receive() {
  std::string bytes(kDatagramBytesMax + 1, '\0');
  Endpoint from;
  asio::error_code error;
  const size_t size = socket_.receive_from(asio::buffer(bytes), from, 0, error);
  // A refusal that an earlier datagram met is reported here; what follows it is still to be read.
  if (error == asio::error::connection_refused) return std::pair(std::string(), from);
  if (error) return std::nullopt;
  bytes.resize(size);
  return std::pair(std::move(bytes), Unmapped(from));
}

void DatagramSocket::Send(const std::string& datagram, const Endpoint& to) {
  asio::error_code ignored;
  socket_.send_to(asio::buffer(datagram), mapped_ ? Mapped(to) : to, 0, ignored);
}

std::string ToText(const DatagramSocket::Endpoint& endpoint) {
  const asio::ip::address& address = endpoint.address();
  const std::string host = address.to_string();
  return address.is_v6() ? absl::StrCat("[", host, "]:", endpoint.port())
                         : absl::StrCat(host, ":", endpoint.port());
}

std::optional<DatagramSocket::Endpoint> ToEndpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  uint32_t port = 0;
  const bool is_port = absl::SimpleAtoi(text.substr(colon + 1), &port);
  if (!is_port || port == 0 || port > std::numeric_limits<uint16_t>::max()) return std::nullopt;
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  asio::error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error) return std::nullopt;
  return Unmapped({address, static_cast<uint16_t>(port)});
}

}  // namespace lockstep::hosts

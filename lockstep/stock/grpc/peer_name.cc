#include "lockstep/stock/grpc/peer_name.h"

#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "asio/ip/tcp.hpp"

namespace lockstep::net {

std::string PeerName(int fd) {
  asio::ip::tcp::endpoint peer;
  socklen_t size = static_cast<socklen_t>(peer.capacity());
  if (getpeername(fd, peer.data(), &size) != 0) return {};
  asio::ip::address address = peer.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return absl::StrCat(address.is_v4() ? "ipv4:" : "ipv6:%5B", address.to_string(),
                      address.is_v4() ? ":" : "%5D:", peer.port());
}

}  // namespace lockstep::net

#include "lockstep/launch/free_ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::launch {

absl::StatusOr<std::vector<uint16_t>> FreePorts(int32_t count, bool loopback) {
  std::vector<runtime::UniqueFd> held;  // until all are found, so that none is found twice
  std::vector<uint16_t> ports;
  for (int32_t i = 0; i < count; ++i) {
    runtime::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
    socklen_t size = sizeof address;
    if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      return absl::ErrnoToStatus(errno, "no free port is to be had");
    }
    ports.push_back(ntohs(address.sin_port));
    held.push_back(std::move(fd));
  }
  return ports;
}

}  // namespace lockstep::launch

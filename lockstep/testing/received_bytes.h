// How much this process has received over its connections to one port, as the kernel counts it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace lockstep::testing {

// Of the IPv4 connections that are open now.
inline uint64_t BytesReceivedFrom(uint16_t port) {
  // `tcpi_bytes_received` of struct tcp_info in <linux/tcp.h>, which <netinet/tcp.h> clashes with
  // and does not have.
  constexpr size_t kAt = 128;
  uint64_t all = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    sockaddr_in peer = {};
    socklen_t size = sizeof(peer);
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin_family != AF_INET || ntohs(peer.sin_port) != port) continue;
    std::array<char, 256> info = {};
    size = info.size();
    if (::getsockopt(fd, IPPROTO_TCP, /*TCP_INFO*/ 11, info.data(), &size) != 0) continue;
    uint64_t bytes = 0;
    std::memcpy(&bytes, info.data() + kAt, sizeof(bytes));
    all += bytes;
  }
  return all;
}

}  // namespace lockstep::testing

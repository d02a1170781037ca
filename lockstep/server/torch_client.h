// One of torch's clients, by hand. Tests only.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::server {

// Requests as they are on the wire.
inline std::string Number(int64_t number) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &number, 8);
  return bytes;
}
inline std::string Text(const std::string& text) {
  return Number(static_cast<int64_t>(text.size())) + text;
}
inline std::string SetBytes(const std::string& key, const std::string& value = "value") {
  return "\x01" + Text(key) + Text(value);
}
inline std::string GetBytes(const std::string& key) { return "\x03" + Text(key); }
inline std::string AddBytes(const std::string& key, int64_t amount) {
  return "\x04" + Text(key) + Number(amount);
}
inline std::string WaitBytes(const std::string& key) { return "\x06" + Number(1) + Text(key); }
inline std::string PushBytes(const std::string& key, const std::string& value) {
  return "\x0e" + Text(key) + Text(value);
}
inline std::string PopBytes(const std::string& key) { return "\x0f" + Text(key); }

// Blocks, but not for ever.
class TorchClient {
 public:
  // How torch's clients begin; one that is silent has yet to say it.
  static inline const std::string kHello = std::string("\0\xce\xf7\x85\x3c", 5);
  struct Silent {};

  explicit TorchClient(const std::string& address) : TorchClient(address, Silent()) {
    Send(kHello);
  }
  TorchClient(const std::string& address, Silent /*says nothing*/)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto parsed = runtime::ParseAddress(address);
    EXPECT_TRUE(parsed.ok()) << address;
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_port = htons(parsed->port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0;
  }

  bool connected() const { return connected_; }
  void Send(const std::string& bytes) {
    EXPECT_EQ(send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              connected_ ? static_cast<ssize_t>(bytes.size()) : -1);
  }
  // The same where the other end may have gone; what is received says so.
  void TrySend(const std::string& bytes) {
    static_cast<void>(send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  // Something is there to be received now.
  bool HasCome() {
    pollfd wanted = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return poll(&wanted, 1, 0) == 1;
  }
  // So many bytes; fewer: the other end has closed, or nothing came for long.
  std::string Receive(size_t bytes) {
    std::string all;
    while (all.size() < bytes) {
      const std::string more = Receive();
      if (more.empty()) break;
      all += more;
    }
    return all;
  }
  // Empty: the other end has closed.
  std::string Receive() {
    pollfd wanted = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&wanted, 1, kPatienceMs), 1);
    std::array<char, 65536> bytes;
    const ssize_t n = recv(fd_.get(), bytes.data(), bytes.size(), 0);
    return n <= 0 ? std::string() : std::string(bytes.data(), static_cast<size_t>(n));
  }

 private:
  static constexpr int kPatienceMs = 20'000;

  runtime::UniqueFd fd_;
  bool connected_ = false;
};

}  // namespace lockstep::server

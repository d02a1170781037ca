// A program that speaks the protocol of long values, and lies. Tests only.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/rendezvous/transport/bulk_wire.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep {

using transport::BulkHeader;
using wire::native::FetchChunk;
using wire::native::PeerHello;

class Liar {
 public:
  Liar(const std::string& address, const PeerHello& hello) {
    const auto at = runtime::ParseAddress(address);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(at->port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    Say(transport::WithLength(wire::native::Encode(hello)));
  }
  ~Liar() { ::close(fd_); }

  void Say(const std::string& bytes) {
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Less: the other end has closed.
  std::string Hear(size_t bytes) {
    std::string heard(bytes, '\0');
    const ssize_t count = ::recv(fd_, heard.data(), bytes, MSG_WAITALL);
    heard.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return heard;
  }
  bool IsWelcomed() {
    std::string buffer = Hear(4);
    if (buffer.size() < 4) return false;
    buffer += Hear(static_cast<uint8_t>(buffer[0]));
    return transport::TakeMessage(buffer).value().has_value();
  }
  BulkHeader Ask(const FetchChunk& chunk) {
    Say(transport::WithLength(wire::native::Encode(chunk)));
    const std::string heard = Hear(transport::kBulkHeaderBytes);
    transport::BulkHeaderBytes bytes = {};
    heard.copy(bytes.data(), bytes.size());
    const auto header = transport::DecodeBulkHeader(bytes);
    EXPECT_TRUE(header.ok()) << header.status();
    return header.value_or(BulkHeader{});
  }

 private:
  int fd_ = -1;
};

}  // namespace lockstep

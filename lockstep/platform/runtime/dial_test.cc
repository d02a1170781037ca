#include "lockstep/platform/runtime/dial.h"

#include <fcntl.h>

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

using ::testing::HasSubstr;

// Dials and waits for what comes of it.
absl::StatusOr<asio::ip::tcp::socket> DialAndWait(asio::io_context& io, const Address& address,
                                                  absl::Duration timeout = absl::Seconds(30)) {
  std::optional<absl::StatusOr<asio::ip::tcp::socket>> result;
  Dial(io, address, timeout, [&](auto socket) { result.emplace(std::move(socket)); });
  io.restart();
  io.run();
  return *std::move(result);
}

Address BoundAddress(const asio::ip::tcp::acceptor& acceptor) {
  return *ParseAddress(ToString(acceptor.local_endpoint()));
}

bool ClosesOnExec(int fd) { return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

TEST(Dial, ConnectsByNumberAndByName) {
  asio::io_context io;
  auto acceptor = Listen(io, {.host = "127.0.0.1"});
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  Address address = BoundAddress(*acceptor);
  EXPECT_NE(address.port, 0);
  for (const char* host : {"127.0.0.1", "localhost"}) {
    address.host = host;
    const auto socket = DialAndWait(io, address);
    ASSERT_TRUE(socket.ok()) << socket.status();
    EXPECT_TRUE(socket->is_open());
  }
}

TEST(Dial, LeavesNothingToChildren) {
  asio::io_context io;
  auto acceptor = Listen(io, {.host = "127.0.0.1"});
  auto socket = DialAndWait(io, BoundAddress(*acceptor));
  EXPECT_TRUE(ClosesOnExec(acceptor->native_handle()));
  EXPECT_TRUE(ClosesOnExec(socket->native_handle()));
}

TEST(Dial, SaysWhyItCannot) {
  asio::io_context io;
  Address address;
  {
    auto acceptor = Listen(io, {.host = "127.0.0.1"});
    address = BoundAddress(*acceptor);
  }
  const absl::Status refused = DialAndWait(io, address).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(refused.message(), "cannot connect to " + ToString(address) + ": Connection refused");
}

TEST(Dial, GivesUpInTime) {
  asio::io_context io;
  auto acceptor = Listen(io, {.host = "127.0.0.1"});
  const absl::Status status = DialAndWait(io, BoundAddress(*acceptor), -absl::Seconds(1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(Listen, SaysWhyItCannot) {
  asio::io_context io;
  auto first = Listen(io, {.host = "127.0.0.1"});
  const absl::Status taken = Listen(io, BoundAddress(*first)).status();
  EXPECT_THAT(std::string(taken.message()), HasSubstr("another process has it"));
  // An address of the documentation, which no host has.
  const absl::Status foreign = Listen(io, {.host = "192.0.2.1"}).status();
  EXPECT_THAT(std::string(foreign.message()), HasSubstr("is this an address of this host?"));
}

TEST(Listen, WritesEndpointsAsAddresses) {
  using asio::ip::tcp;
  EXPECT_EQ(ToString(tcp::endpoint(asio::ip::make_address("::1"), 5)), "[::1]:5");
  EXPECT_EQ(ToString(tcp::endpoint(asio::ip::make_address("127.0.0.1"), 5)), "127.0.0.1:5");
}

}  // namespace
}  // namespace lockstep::runtime

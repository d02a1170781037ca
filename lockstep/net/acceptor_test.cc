#include "lockstep/net/acceptor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/net/stock_door_testing.h"

namespace lockstep::net {
namespace {

using ::testing::HasSubstr;

int ConnectTo(const asio::ip::tcp::endpoint& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port());
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

const runtime::Address kAnyPort{.host = "127.0.0.1", .port = 0};

TEST(Acceptor, AddressInUseIsNamed) {
  runtime::Loop loop;
  Acceptor first(
      loop, {}, [](int) {}, [](std::string) {});
  ASSERT_TRUE(first.Listen(kAnyPort).ok());
  ASSERT_NE(first.address().port(), 0);
  Acceptor second(
      loop, {}, [](int) {}, [](std::string) {});
  absl::Status status = second.Listen({.host = "127.0.0.1", .port = first.address().port()});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("127.0.0.1:" + std::to_string(first.address().port())));
}

TEST(Acceptor, AForeignAddressIsNamed) {
  runtime::Loop loop;
  Acceptor acceptor(
      loop, {}, [](int) {}, [](std::string) {});
  absl::Status status = acceptor.Listen({.host = "192.0.2.1", .port = 0});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("192.0.2.1"));
}

TEST(Acceptor, SurvivesRunningOutOfDescriptors) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the undefined-behaviour sanitizer needs descriptors of its own to check objects";
#endif
  runtime::Loop loop;
  Mailbox<int> taken;
  Mailbox<std::string> complaints;
  Acceptor acceptor(
      loop, {.pause = absl::Milliseconds(1)}, [&](int fd) { taken.Put(fd); },
      [&](std::string text) { complaints.Put(std::move(text)); });
  ASSERT_TRUE(acceptor.Listen(kAnyPort).ok());
  std::vector<int> fds;
  for (int i = 0; i < 5; ++i) fds.push_back(ConnectTo(acceptor.address()));

  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;  // every new number is above it
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  acceptor.Start();
  std::thread runner([&] { loop.Run(); });
  auto complaint = complaints.Take();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(complaint.has_value());
  EXPECT_THAT(*complaint, HasSubstr("ulimit -n"));

  for (int i = 0; i < 5; ++i) {
    auto fd = taken.Take();
    ASSERT_TRUE(fd.has_value());
    fds.push_back(*fd);
  }
  loop.Stop();
  runner.join();
  EXPECT_EQ(acceptor.CountOpenConnections(), 5u);
  for (int fd : fds) close(fd);
  EXPECT_EQ(acceptor.CountOpenConnections(), 0u);
}

TEST(Acceptor, MayBeDestroyedWhileItWaits) {
  runtime::Loop loop;
  auto acceptor = std::make_unique<Acceptor>(
      loop, AcceptorOptions{}, [](int) {}, [](std::string) {});
  ASSERT_TRUE(acceptor->Listen(kAnyPort).ok());
  acceptor->Start();
  bool ran = false;
  loop.Post([&] {
    acceptor.reset();
    loop.Post([&] {
      ran = true;
      loop.Stop();
    });
  });
  loop.Run();
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace lockstep::net

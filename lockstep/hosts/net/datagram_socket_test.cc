#include "lockstep/hosts/net/datagram_socket.h"

#include <string>

#include "gmock/gmock.h"
#include "lockstep/hosts/packets.h"

namespace lockstep::hosts {
namespace {

using asio::ip::make_address;

DatagramSocket Open(const char* host) {
  auto socket = DatagramSocket::Open(make_address(host), 0);
  EXPECT_TRUE(socket.ok()) << socket.status();
  return *std::move(socket);
}

std::optional<std::pair<std::string, DatagramSocket::Endpoint>> Next(DatagramSocket& socket) {
  socket.Wait(absl::Seconds(10));
  return socket.Receive();
}

TEST(DatagramSocketTest, WhatIsSentArrivesWithItsSender) {
  DatagramSocket one = Open("127.0.0.1");
  DatagramSocket other = Open("127.0.0.1");
  one.Send("hello", {make_address("127.0.0.1"), other.port()});
  const auto received = Next(other);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->first, "hello");
  EXPECT_EQ(received->second.port(), one.port());
  EXPECT_FALSE(other.Receive());
}

TEST(DatagramSocketTest, TheUnspecifiedAddressOfIpv6TakesIpv4AndSaysSo) {
  DatagramSocket any = Open("::");
  DatagramSocket four = Open("127.0.0.1");
  four.Send("ping", {make_address("127.0.0.1"), any.port()});
  const auto received = Next(any);
  ASSERT_TRUE(received);
  EXPECT_EQ(ToText(received->second), "127.0.0.1:" + std::to_string(four.port()));
  any.Send("pong", received->second);
  const auto answer = Next(four);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->first, "pong");
}

TEST(DatagramSocketTest, WhatNobodyTakesDoesNotHideWhatComesAfterIt) {
  DatagramSocket one = Open("127.0.0.1");
  uint16_t nobody = 0;
  { nobody = Open("127.0.0.1").port(); }
  one.Send("lost", {make_address("127.0.0.1"), nobody});
  DatagramSocket other = Open("127.0.0.1");
  other.Send("here", {make_address("127.0.0.1"), one.port()});
  std::string got;
  for (int i = 0; i < 10 && got.empty(); ++i) {
    const auto received = Next(one);
    if (received) got = received->first;
  }
  EXPECT_EQ(got, "here");
}

TEST(DatagramSocketTest, WhatIsTooLongIsCutOff) {
  DatagramSocket one = Open("127.0.0.1");
  DatagramSocket other = Open("127.0.0.1");
  one.Send(std::string(5000, 'x'), {make_address("127.0.0.1"), other.port()});
  const auto received = Next(other);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->first.size(), kDatagramBytesMax + 1);
}

TEST(DatagramSocketTest, AnAddressOfAnotherHostCannotBeHad) {
  EXPECT_EQ(DatagramSocket::Open(make_address("192.0.2.1"), 0).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(DatagramSocketTest, EndpointsAreReadAsTheyAreWritten) {
  for (const char* text : {"10.0.0.2:7070", "[fd00::2]:7070"}) {
    const auto endpoint = ToEndpoint(text);
    ASSERT_TRUE(endpoint) << text;
    EXPECT_EQ(ToText(*endpoint), text);
  }
  for (const char* text : {"", ":", "x", "10.0.0.2", "10.0.0.2:", "10.0.0.2:0", "10.0.0.2:70000",
                           "host:7070", ":7070", "10.0.0.2:-1", "[]:1"}) {
    EXPECT_FALSE(ToEndpoint(text)) << text;
  }
}

TEST(DatagramSocketTest, TheClockGoesForward) {
  const Time before = BootNow();
  EXPECT_LE(before, BootNow());
}

}  // namespace
}  // namespace lockstep::hosts

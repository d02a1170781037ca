#include "lockstep/stock/grpc/registered_connections.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace lockstep::net {
namespace {

constexpr ServiceIncarnation kFirst(11), kSecond(22), kCurrent(33);

TEST(RegisteredConnections, WhoHasNotRegisteredActsOnTheCurrentAttempt) {
  RegisteredConnections connections(10);
  EXPECT_EQ(connections.Find("a", kCurrent), kCurrent);
  connections.Registered("a", kFirst);
  EXPECT_EQ(connections.Find("a", kCurrent), kFirst);
  EXPECT_EQ(connections.Find("b", kCurrent), kCurrent);
}

TEST(RegisteredConnections, TheLastRegistrationCounts) {
  RegisteredConnections connections(10);
  connections.Registered("a", kFirst);
  connections.Registered("a", kSecond);
  EXPECT_EQ(connections.Find("a", kCurrent), kSecond);
  EXPECT_EQ(connections.size(), 1u);
}

TEST(RegisteredConnections, ANewConnectionWithAnOldNameHasNotRegistered) {
  RegisteredConnections connections(10);
  connections.Registered("a", kFirst);
  connections.Forget("a");
  EXPECT_EQ(connections.Find("a", kCurrent), kCurrent);
}

TEST(RegisteredConnections, TheOldestIsForgottenFirst) {
  RegisteredConnections connections(2);
  for (const char* peer : {"a", "b", "c"}) connections.Registered(peer, kFirst);
  EXPECT_EQ(connections.size(), 2u);
  EXPECT_EQ(connections.Find("a", kCurrent), kCurrent);
  EXPECT_EQ(connections.Find("c", kCurrent), kFirst);
}

TEST(RegisteredConnections, ForgottenNamesDoNotPileUp) {
  RegisteredConnections connections(3);
  for (int i = 0; i < 1000; ++i) {
    connections.Registered(absl::StrCat("peer", i % 7), kFirst);
    connections.Forget(absl::StrCat("peer", i % 7));
  }
  connections.Registered("last", kSecond);
  EXPECT_LE(connections.size(), 3u);
  EXPECT_EQ(connections.Find("last", kCurrent), kSecond);
}

}  // namespace
}  // namespace lockstep::net

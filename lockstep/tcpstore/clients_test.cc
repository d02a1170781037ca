#include "lockstep/tcpstore/clients.h"

#include "gtest/gtest.h"

namespace lockstep::tcpstore {
namespace {

const ConnectionId kOne(1);

TEST(Clients, WhoTakesTheValueItWasWokenForPassesNothingOn) {
  Clients clients;
  clients.Came(kOne, "host:1");
  clients.Woken(kOne, "/q");
  EXPECT_EQ(clients.CountWoken("/q"), 1u);
  EXPECT_FALSE(clients.Asks(kOne, QueuePop{"/q"}));
  EXPECT_EQ(clients.CountWoken("/q"), 0u);
  EXPECT_FALSE(clients.Left(kOne));
}

TEST(Clients, WhoDoesSomethingElsePassesItOnOnce) {
  Clients clients;
  clients.Came(kOne, "host:1");
  clients.Woken(kOne, "/q");
  EXPECT_EQ(clients.Asks(kOne, QueuePop{"/other"}), "/q");
  EXPECT_FALSE(clients.Asks(kOne, Ping{}));
}

TEST(Clients, WhoLeavesPassesItOn) {
  Clients clients;
  clients.Came(kOne, "host:1");
  clients.Woken(kOne, "/q");
  EXPECT_EQ(clients.Left(kOne), "/q");
  EXPECT_FALSE(clients.Has(kOne));
  EXPECT_FALSE(clients.Left(kOne)) << "it was not there";
}

TEST(Clients, TheFirstKeyWithARankTellsTheRank) {
  Clients clients;
  clients.Came(kOne, "host:1");
  clients.MadeKey(kOne, "/x");
  EXPECT_EQ(clients.View(kOne, Time()).rank, std::nullopt);
  clients.MadeKey(kOne, "/default_pg/0//cpu//0/2");
  clients.MadeKey(kOne, "/default_pg/0//cpu//0/3");
  EXPECT_EQ(clients.View(kOne, Time()).rank, 2);
  EXPECT_EQ(clients.View(kOne, Time()).peer, "host:1");
}

}  // namespace
}  // namespace lockstep::tcpstore

#include "lockstep/stock/tcpstore/clients.h"

#include "gmock/gmock.h"

namespace lockstep::tcpstore {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const ConnectionId kOne(1);

TEST(Clients, WhoTakesTheValueItWasWokenForPassesNothingOn) {
  Clients clients;
  clients.Came(kOne, "host:1");
  clients.Woken(kOne, "/q");
  EXPECT_EQ(clients.CountWoken("/q"), 1u);
  EXPECT_TRUE(clients.AnyWoken());
  EXPECT_THAT(clients.Asks(kOne, QueuePop{"/q"}), IsEmpty());
  EXPECT_EQ(clients.CountWoken("/q"), 0u);
  EXPECT_FALSE(clients.AnyWoken());
  EXPECT_THAT(clients.Left(kOne), IsEmpty());
}

TEST(Clients, WhoDoesSomethingElsePassesItOnOnce) {
  Clients clients;
  clients.Came(kOne, "host:1");
  clients.Woken(kOne, "/q");
  EXPECT_THAT(clients.Asks(kOne, QueuePop{"/other"}), ElementsAre("/q"));
  EXPECT_THAT(clients.Asks(kOne, Ping{}), IsEmpty());
  EXPECT_FALSE(clients.AnyWoken());
}

TEST(Clients, WhoLeavesPassesItOn) {
  Clients clients;
  clients.Came(kOne, "host:1");
  clients.Woken(kOne, "/q");
  EXPECT_THAT(clients.Left(kOne), ElementsAre("/q"));
  EXPECT_FALSE(clients.Has(kOne));
  EXPECT_FALSE(clients.AnyWoken());
  EXPECT_THAT(clients.Left(kOne), IsEmpty()) << "it was not there";
}

TEST(Clients, WhoWasWokenForSeveralMayTakeOneAfterTheOther) {
  Clients clients;
  clients.Came(kOne, "host:1");
  clients.Woken(kOne, "/q");
  clients.Woken(kOne, "/r");
  EXPECT_THAT(clients.Asks(kOne, QueuePop{"/r"}), IsEmpty());
  EXPECT_EQ(clients.CountWoken("/q"), 1u);
  EXPECT_THAT(clients.Left(kOne), ElementsAre("/q"));
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

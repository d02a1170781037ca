#include "lockstep/platform/link/link_places.h"

#include "gtest/gtest.h"

namespace lockstep::link {
namespace {

const asio::ip::address kOne = asio::ip::make_address("10.0.0.1");
const asio::ip::address kOther = asio::ip::make_address("10.0.0.2");
const Time kStart = Time() + absl::Hours(1);

LinkPlaces::Limits Limits() {
  return {.connections_max = 4,
          .connections_per_host_max = 3,
          .reserved = 1,
          .greetings_max = 2,
          .first_request_timeout = absl::Seconds(10),
          .hello_timeout = absl::Seconds(5)};
}

TEST(LinkPlaces, NamesTheLimitThatOneMoreWouldBreak) {
  LinkPlaces places(Limits());
  for (uint64_t id = 1; id <= 3; ++id) places.Add(LinkId(id), kOne);
  EXPECT_TRUE(places.GreetingsAreFull());
  EXPECT_NE(places.LimitReached(kOne).find("connections_per_host_max"), std::string::npos);
  EXPECT_EQ(places.LimitReached(kOther), "");
  places.Add(LinkId(4), kOther);
  EXPECT_NE(places.LimitReached(kOther).find("(connections_max)"), std::string::npos);
  places.Leave(LinkId(1));
  EXPECT_EQ(places.LimitReached(kOne), "");
}

TEST(LinkPlaces, TakesTheOldestGreetingOfTheHostWithMost) {
  LinkPlaces places(Limits());
  EXPECT_EQ(places.OldestGreeting(), std::nullopt);
  places.Add(LinkId(1), kOther);
  places.Add(LinkId(2), kOne);
  places.Add(LinkId(3), kOne);
  EXPECT_EQ(places.OldestGreeting(), LinkId(2));
  places.Leave(LinkId(2));
  places.Welcome(kStart, LinkId(3));
  EXPECT_EQ(places.OldestGreeting(), LinkId(1));
  EXPECT_EQ(places.welcomed(), 1u);
}

TEST(LinkPlaces, WhoAskedForNothingGivesItsPlaceAfterAWhile) {
  LinkPlaces places(Limits());
  places.Add(LinkId(1), kOne);
  places.Welcome(kStart, LinkId(1));
  EXPECT_EQ(places.OldestIdle(kStart + absl::Seconds(9), nullptr), std::nullopt);
  EXPECT_EQ(places.OldestIdle(kStart + absl::Seconds(10), nullptr), LinkId(1));
  EXPECT_EQ(places.OldestIdle(kStart + absl::Seconds(10), &kOther), std::nullopt);
  EXPECT_FALSE(places.Ask(LinkId(1)));
  EXPECT_EQ(places.OldestIdle(kStart + absl::Seconds(10), &kOne), std::nullopt);
}

TEST(LinkPlaces, AReservedPlaceIsForWhoGoesOnWhileTheOthersAreTaken) {
  LinkPlaces places(Limits());
  for (uint64_t id = 1; id <= 4; ++id) {
    places.Add(LinkId(id), id < 3 ? kOne : kOther);
    EXPECT_EQ(places.Welcome(kStart, LinkId(id)), id == 4);
  }
  EXPECT_FALSE(places.Ask(LinkId(3)));
  EXPECT_TRUE(places.Ask(LinkId(4)));
  EXPECT_TRUE(places.NextReservationEnd().is_infinite());
}

TEST(LinkPlaces, SendsAwayWhoAsksForNothingInAReservedPlaceThatIsNeeded) {
  LinkPlaces places(Limits());
  for (uint64_t id = 1; id <= 4; ++id) {
    places.Add(LinkId(id), id < 3 ? kOne : kOther);
    places.Welcome(kStart, LinkId(id));
  }
  const Time end = places.NextReservationEnd();
  EXPECT_EQ(end, kStart + absl::Seconds(5));
  EXPECT_EQ(places.EndReservation(end - absl::Milliseconds(1)), std::nullopt);
  EXPECT_EQ(places.EndReservation(end), LinkId(4));
  places.Leave(LinkId(4));
  EXPECT_EQ(places.EndReservation(end), std::nullopt);

  places.Add(LinkId(5), kOther);
  places.Welcome(end, LinkId(5));
  places.Leave(LinkId(1));
  EXPECT_EQ(places.EndReservation(end + absl::Seconds(5)), std::nullopt) << "no longer needed";
}

}  // namespace
}  // namespace lockstep::link

#include "lockstep/stock/tcpstore/connection_rest.h"

#include "gtest/gtest.h"

namespace lockstep::tcpstore {
namespace {

constexpr absl::Duration kRest = absl::Seconds(10);

TEST(ConnectionRest, ThereIsNoneBeforeTheFirstConnectionHasLeft) {
  ConnectionRest rest(kRest);
  rest.Came(Time() + absl::Hours(1));
  EXPECT_FALSE(rest.TakeRested());
}

TEST(ConnectionRest, CountsFromTheEndOfTheLastConnection) {
  ConnectionRest rest(kRest);
  rest.Came(Time());
  rest.Came(Time());
  rest.Left(Time());
  EXPECT_FALSE(rest.none_here());
  rest.Left(Time() + kRest);
  EXPECT_TRUE(rest.none_here());
  rest.Came(Time() + 2 * kRest - absl::Nanoseconds(1));
  EXPECT_FALSE(rest.TakeRested());
}

TEST(ConnectionRest, AClientThatOnlyLooksInDoesNotEndIt) {
  ConnectionRest rest(kRest);
  rest.Came(Time());
  rest.Left(Time());
  rest.Came(Time() + kRest);
  rest.Left(Time() + kRest);
  rest.Came(Time() + kRest);
  EXPECT_TRUE(rest.TakeRested());
  EXPECT_FALSE(rest.TakeRested());
}

}  // namespace
}  // namespace lockstep::tcpstore

#include "lockstep/launch/standstill.h"

#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

constexpr int64_t kPid = 17;

Time At(int seconds) { return Time() + absl::Seconds(seconds); }

TEST(Standstill, CountsFromWhenItLastRan) {
  Standstill still;
  EXPECT_EQ(still.For(At(0), kPid), std::nullopt);
  still.Seen(At(1), kPid, 100);
  still.Seen(At(2), kPid, 108);
  still.Seen(At(3), kPid, 108);
  still.Seen(At(9), kPid, 108);
  EXPECT_EQ(still.For(At(10), kPid), absl::Seconds(8));
  still.Seen(At(11), kPid, 109);
  EXPECT_EQ(still.For(At(11), kPid), absl::ZeroDuration());
}

TEST(Standstill, WhatWeCausedOurselvesDoesNotCount) {
  Standstill still;
  still.Seen(At(1), kPid, 100);
  still.Disturbed(kPid);
  still.Seen(At(4), kPid, 102);
  EXPECT_EQ(still.For(At(5), kPid), absl::Seconds(4));
  // Once only.
  still.Seen(At(6), kPid, 103);
  EXPECT_EQ(still.For(At(6), kPid), absl::ZeroDuration());
  still.Disturbed(99);  // nobody
  EXPECT_EQ(still.For(At(6), 99), std::nullopt);
}

TEST(Standstill, WhoIsGoneIsForgotten) {
  Standstill still;
  still.Seen(At(1), kPid, 100);
  still.Seen(At(1), 18, 100);
  still.KeepOnly({18});
  EXPECT_EQ(still.For(At(2), kPid), std::nullopt);
  EXPECT_EQ(still.For(At(2), 18), absl::Seconds(1));
}

}  // namespace
}  // namespace lockstep::launch

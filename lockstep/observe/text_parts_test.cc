#include "lockstep/observe/text_parts.h"

#include "gtest/gtest.h"
#include "lockstep/observe/observe_testing.h"

namespace lockstep::observe {
namespace {

TEST(DurationText, UsesTheUnitThatAReaderNeeds) {
  EXPECT_EQ(DurationText(-1), "0us");
  EXPECT_EQ(DurationText(340), "340us");
  EXPECT_EQ(DurationText(12345), "12ms");
  EXPECT_EQ(DurationText(2'345'678), "2.3s");
  EXPECT_EQ(DurationText(41 * kSecond), "41s");
  EXPECT_EQ(DurationText(303 * kSecond), "5m03s");
  EXPECT_EQ(DurationText((3 * 3600 + 12 * 60) * kSecond), "3h12m");
  EXPECT_EQ(DurationText((4 * 24 + 6) * 3600 * kSecond), "4d06h");
}

TEST(RangesText, JoinsNeighbours) {
  EXPECT_EQ(RangesText({}, 3), "");
  EXPECT_EQ(RangesText({4}, 3), "4");
  EXPECT_EQ(RangesText({0, 1, 2, 5, 7, 8}, 3), "0-2,5,7-8");
  EXPECT_EQ(RangesText({0, 1, 2, 5, 7, 8}, 2), "0-2,5,+2 more");
}

}  // namespace
}  // namespace lockstep::observe

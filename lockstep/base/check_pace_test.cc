#include "lockstep/base/check_pace.h"

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(CheckPace, ASmallTableIsLookedAtAfterEveryStep) {
  CheckPace pace;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(pace.IsDue(10));
}

TEST(CheckPace, ALargeTableIsLookedAtAfterAsManyStepsAsItHasEntries) {
  CheckPace pace;
  int looks = 0;
  for (int i = 0; i < 10'000; ++i) looks += pace.IsDue(1000) ? 1 : 0;
  EXPECT_EQ(looks, 10);
}

}  // namespace
}  // namespace lockstep

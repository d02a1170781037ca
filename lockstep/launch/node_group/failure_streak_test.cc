#include "lockstep/launch/node_group/failure_streak.h"

#include "gtest/gtest.h"

namespace lockstep::node_group {
namespace {

TEST(FailureStreak, FailuresThatDifferInNumbersAloneAreAlike) {
  FailureStreak streak;
  streak.Count(true, "task/3 (pid 17) failed");
  streak.Count(true, "task/1 (pid 99) failed");
  EXPECT_EQ(streak.alike(), 2);
  streak.Count(true, "another");
  EXPECT_EQ(streak.alike(), 1);
  streak.Count(true, "");
  EXPECT_EQ(streak.alike(), 0);
  EXPECT_EQ(streak.quick(), 4);
}

TEST(FailureStreak, ALateFailureEndsIt) {
  FailureStreak streak;
  streak.Count(true, "failed");
  streak.Count(false, "failed");
  EXPECT_EQ(streak.quick(), 0);
  EXPECT_EQ(streak.alike(), 0);
}

TEST(FailureStreak, TheNextAttemptWaitsEverLongerUpToTheLast) {
  FailureStreak streak;
  for (const int wait : {0, 1, 2, 3, 3}) {
    streak.Count(true, "failed");
    EXPECT_EQ(streak.BackOff(absl::Seconds(1), absl::Seconds(3)), absl::Seconds(wait));
    EXPECT_EQ(streak.BackOff(absl::ZeroDuration(), absl::Seconds(3)), absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace lockstep::node_group

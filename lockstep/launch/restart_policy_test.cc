#include "lockstep/launch/restart_policy.h"

#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

TEST(RestartPolicy, AllowsAsManyAsTheOptionsSay) {
  SupervisorOptions options;
  options.max_restarts = 1;
  RestartPolicy policy(options);
  EXPECT_TRUE(policy.AllowsAll());
  EXPECT_FALSE(policy.AllowsAlone(0));
  policy.Use();
  EXPECT_FALSE(policy.AllowsAll());
  policy.SetUsed(0);
  EXPECT_TRUE(policy.AllowsAll());
  options.scope = RestartScope::kRank;
  EXPECT_FALSE(policy.AllowsAll());
  EXPECT_TRUE(policy.AllowsAlone(0));
  EXPECT_FALSE(policy.AllowsAlone(1));
}

TEST(RestartPolicy, QuickFailuresInARowWaitEverLonger) {
  SupervisorOptions options;
  options.restart_backoff = absl::Seconds(1);
  options.restart_backoff_max = absl::Seconds(3);
  RestartPolicy policy(options);
  for (const int wait : {0, 1, 2, 3, 3}) {
    EXPECT_EQ(policy.BackOff("text", absl::ZeroDuration()), absl::Seconds(wait));
  }
  EXPECT_EQ(policy.BackOff("text", options.quick_failure), absl::ZeroDuration());
  EXPECT_EQ(policy.BackOff("text", absl::ZeroDuration()), absl::ZeroDuration());
}

TEST(RestartPolicy, CountsFailuresThatReadAlikeWhileTheyAreEarly) {
  SupervisorOptions options;
  options.same_failures_max = 3;
  RestartPolicy policy(options);
  policy.BackOff("a", absl::ZeroDuration());
  policy.BackOff("a", absl::ZeroDuration());
  EXPECT_EQ(policy.CountAlike("a"), 3);
  EXPECT_TRUE(policy.TooManyAlike("a"));
  EXPECT_FALSE(policy.TooManyAlike("b"));
  policy.BackOff("a", options.early_failure);
  EXPECT_EQ(policy.CountAlike("a"), 1);
}

}  // namespace
}  // namespace lockstep::launch

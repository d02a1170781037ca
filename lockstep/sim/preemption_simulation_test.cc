#include "lockstep/sim/preemption_simulation.h"

#include "gtest/gtest.h"

namespace lockstep::sim {
namespace {

TEST(PreemptionSimulation, SomeSeedsBreakNoRuleAndSeeEverything) {
  int64_t agreed = 0, saved = 0, crashes = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const PreemptionResult result = RunPreemptionSeed(seed);
    ASSERT_TRUE(result.ok()) << result.report;
    agreed += result.agreed;
    saved += result.saved;
    crashes += result.crashes;
  }
  EXPECT_GT(agreed, 100);
  EXPECT_GT(saved, 300);
  EXPECT_GT(crashes, 100);
}

TEST(PreemptionSimulation, PreemptionGap06_AThousandMembersSaveToo) {
  const PreemptionResult result = RunPreemptionSeed(2, {.size = 1000});
  ASSERT_TRUE(result.ok()) << result.report;
  EXPECT_GT(result.saved, 0);
}

TEST(PreemptionSimulation, ASeedAlwaysGoesTheSameWay) {
  const PreemptionResult first = RunPreemptionSeed(17);
  const PreemptionResult again = RunPreemptionSeed(17);
  EXPECT_EQ(first.hash, again.hash);
  EXPECT_EQ(first.steps, again.steps);
}

}  // namespace
}  // namespace lockstep::sim

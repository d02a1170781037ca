#include "lockstep/sim/data_sim.h"

#include "gtest/gtest.h"

namespace lockstep::sim {
namespace {

TEST(DataSimulation, SomeSeedsBreakNoRuleAndSeeEverything) {
  DataResult sum;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const DataResult result = RunDataSeed(seed);
    ASSERT_TRUE(result.ok()) << result.report;
    sum.elements += result.elements;
    sum.kills += result.kills;
    sum.leases_ended += result.leases_ended;
    sum.agreements += result.agreements;
    sum.resumed += result.resumed;
    sum.acks_demanded += result.acks_demanded;
    sum.away += result.away;
    sum.reopened += result.reopened;
    sum.rewound += result.rewound;
  }
  EXPECT_GT(sum.elements, 5000);
  EXPECT_GT(sum.kills, 300);
  EXPECT_GT(sum.leases_ended, 50);
  EXPECT_GT(sum.agreements, 100);
  EXPECT_GT(sum.resumed, 30);
  EXPECT_GT(sum.acks_demanded, 100);
  EXPECT_GT(sum.away, 30);
  EXPECT_GT(sum.reopened, 10);
  EXPECT_GT(sum.rewound, 10);
}

TEST(DataSimulation, ASeedAlwaysGoesTheSameWay) {
  const DataResult first = RunDataSeed(17);
  const DataResult again = RunDataSeed(17);
  EXPECT_EQ(first.hash, again.hash);
  EXPECT_EQ(first.events, again.events);
}

// Whether one of some seeds notices the mutant.
bool IsCaught(DataMutant mutant) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    DataScenario scenario = DrawDataScenario(seed);
    scenario.mutant = mutant;
    if (mutant == DataMutant::kBlocksLate && scenario.mode != dispatch::Mode::kRounds) continue;
    if (mutant == DataMutant::kAcknowledgesAhead) {
      // Only who dies while much is left shows that it had less than it said.
      if (scenario.mode != dispatch::Mode::kFirstCome) continue;
      scenario.kills_consumers = true;
      scenario.segments = 24;
      scenario.elements = 12;
      scenario.step_us = 8000;
      scenario.faults_until_ms = 3000;
    }
    if (RunDataScenario(scenario).ok()) continue;
    // It is the mutant that is noticed.
    scenario.mutant = DataMutant::kNone;
    EXPECT_TRUE(RunDataScenario(scenario).ok()) << "seed " << seed;
    return true;
  }
  return false;
}

TEST(DataMutants, ADispatcherThatSpeaksBeforeItPersistsIsCaught) {
  EXPECT_TRUE(IsCaught(DataMutant::kSpeaksBeforeItPersists));
}
TEST(DataMutants, AJournalThatForgetsWhoIsGoneIsCaught) {
  EXPECT_TRUE(IsCaught(DataMutant::kForgetsWhoIsGone));
}
TEST(DataMutants, AConsumerThatBlocksWhatItHasBegunIsCaught) {
  EXPECT_TRUE(IsCaught(DataMutant::kBlocksLate));
}
TEST(DataMutants, AWorkerThatSkipsAnElementIsCaught) {
  EXPECT_TRUE(IsCaught(DataMutant::kWorkerSkipsAnElement));
}

TEST(DataMutants, AConsumerThatAcknowledgesAheadIsCaught) {
  EXPECT_TRUE(IsCaught(DataMutant::kAcknowledgesAhead));
}
TEST(DataMutants, WhoRobsTheLivingOfTheirPlaceIsCaught) {
  EXPECT_TRUE(IsCaught(DataMutant::kRobsTheLiving));
}
TEST(DataMutants, AJournalThatForgetsThatRoundsStandOpenAgainIsCaught) {
  EXPECT_TRUE(IsCaught(DataMutant::kForgetsThePast));
}
TEST(DataMutants, AConsumerThatDoesNotSayThatAWorkerIsGoneIsCaught) {
  EXPECT_TRUE(IsCaught(DataMutant::kNeverSaysUnreachable));
}

}  // namespace
}  // namespace lockstep::sim

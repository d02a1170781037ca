#include "lockstep/sim/rendezvous_sim.h"

#include "gtest/gtest.h"

namespace lockstep::sim {
namespace {

TEST(RendezvousSimulation, SomeSeedsBreakNoRuleAndSeeEverything) {
  RendezvousResult sum;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const RendezvousResult result = RunRendezvousSeed(seed);
    ASSERT_TRUE(result.ok()) << result.report;
    sum.received += result.received;
    sum.told += result.told;
    sum.roomed += result.roomed;
    sum.fetched += result.fetched;
    sum.put_back += result.put_back;
    sum.mapped += result.mapped;
    sum.kills += result.kills;
    sum.aborted += result.aborted;
  }
  EXPECT_GT(sum.received, 5000);
  EXPECT_GT(sum.told, 1000);
  EXPECT_GT(sum.roomed, 1000);
  EXPECT_GT(sum.fetched, 500);
  EXPECT_GT(sum.put_back, 50);
  EXPECT_GT(sum.mapped, 500);
  EXPECT_GT(sum.kills, 100);
  EXPECT_GT(sum.aborted, 50);
}

TEST(RendezvousSimulation, ASeedAlwaysGoesTheSameWay) {
  const RendezvousResult first = RunRendezvousSeed(17);
  const RendezvousResult again = RunRendezvousSeed(17);
  EXPECT_EQ(first.hash, again.hash);
  EXPECT_EQ(first.events, again.events);
}

}  // namespace
}  // namespace lockstep::sim

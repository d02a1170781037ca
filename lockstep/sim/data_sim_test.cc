#include "lockstep/sim/data_sim.h"

#include "gtest/gtest.h"

namespace lockstep::sim {
namespace {

TEST(DataSimTest, SeedsHold) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const DataResult result = RunDataSeed(seed);
    ASSERT_TRUE(result.ok()) << "seed " << seed << " (" << Describe(DrawDataScenario(seed))
                             << "): " << result.failure;
  }
}

}  // namespace
}  // namespace lockstep::sim

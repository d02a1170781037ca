// The world of native clients holds for some seeds, does the same each time, and its judges catch
// every mistake that a durable coordinator could make.
#include "lockstep/sim/native_simulation.h"

#include <memory>
#include <ostream>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/sim/native_mutant.h"

namespace lockstep::sim {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSeedsMax = 3000;

TEST(NativeSimulation, SomeSeedsHold) {
  int64_t crashes = 0;
  int64_t forgotten = 0;
  int64_t passed = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const NativeResult result = RunNativeSeed(seed);
    ASSERT_TRUE(result.ok()) << result.report;
    crashes += result.crashes;
    forgotten += result.forgotten;
    passed += result.passed;
  }
  // They tried what they are for.
  EXPECT_GT(crashes, 200);
  EXPECT_GT(forgotten, 40);
  EXPECT_GT(passed, 2000);
}

TEST(NativeSimulation, ASeedDoesTheSameAgain) {
  for (uint64_t seed = 5; seed <= 8; ++seed) {
    const NativeResult once = RunNativeSeed(seed);
    const NativeResult again = RunNativeSeed(seed);
    EXPECT_EQ(once.hash, again.hash);
    EXPECT_EQ(once.steps, again.steps);
  }
}

TEST(NativeSimulation, CatchesAServerThatSpeaksBeforeItsRecordsAreDurable) {
  for (uint64_t seed = 1; seed <= kSeedsMax; ++seed) {
    const NativeResult result = RunNativeSeed(seed, {.speaks_too_early = true});
    if (result.ok()) continue;
    EXPECT_THAT(result.report, HasSubstr("replay: build/bin/lockstep_sim --native --seed="));
    return;
  }
  FAIL() << "not caught in " << kSeedsMax << " seeds";
}

class NativeMutants : public ::testing::TestWithParam<int> {};

TEST_P(NativeMutants, AreCaught) {
  const auto mutation = static_cast<NativeMutation>(GetParam());
  for (uint64_t seed = 1; seed <= kSeedsMax; ++seed) {
    const NativeResult result =
        RunNativeSeed(seed, {.make_machine = [&](const coord::CoordinatorOptions& options) {
                        return std::make_unique<NativeMutantMachine>(options, mutation);
                      }});
    if (!result.ok()) return;
  }
  FAIL() << NameOf(mutation) << " was not caught in " << kSeedsMax << " seeds";
}

INSTANTIATE_TEST_SUITE_P(All, NativeMutants, ::testing::Range(0, kNativeMutations),
                         [](const auto& param) {
                           return std::string(NameOf(static_cast<NativeMutation>(param.param)));
                         });

}  // namespace
}  // namespace lockstep::sim

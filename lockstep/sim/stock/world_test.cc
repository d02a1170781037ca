// Agents, a server that is killed, links that break and processes that die, in every order: each
// call of a stock process is answered once, and the mistakes that could be made are found.
#include "lockstep/sim/stock/world.h"

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

namespace lockstep::sim {
namespace {

uint64_t SeedsOr(uint64_t seeds) {
  const char* const given = std::getenv("LOCKSTEP_STOCK_SIMULATION_SEEDS");
  return given == nullptr ? seeds : std::strtoull(given, nullptr, 10);
}

TEST(StockSimulation, EachCallIsAnsweredOnce) {
  StockSimResult total;
  const uint64_t seeds = SeedsOr(500);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const StockSimResult result = RunStockSeed(seed);
    ASSERT_EQ(result.failure, "") << result.report;
    total.answered += result.answered;
    total.passed += result.passed;
    total.shared += result.shared;
    total.crashes += result.crashes;
    total.attempts += result.attempts;
  }
  // They tried what they are for.
  const auto count = static_cast<int64_t>(seeds);
  EXPECT_GE(total.answered, 20 * count);
  EXPECT_GE(total.passed, 10 * count);
  EXPECT_GE(total.shared, 5 * count);
  EXPECT_GE(2 * total.crashes, count);
  EXPECT_GE(total.attempts, count);
}

TEST(StockSimulation, ASeedDoesTheSameAgain) {
  for (uint64_t seed = 5; seed <= 12; ++seed) {
    const StockSimResult once = RunStockSeed(seed);
    const StockSimResult again = RunStockSeed(seed);
    EXPECT_EQ(once.steps, again.steps);
    EXPECT_EQ(once.answered, again.answered);
  }
}

TEST(StockSimulation, OneSeed) {
  const char* const given = std::getenv("LOCKSTEP_STOCK_SIMULATION_SEED");
  if (given == nullptr) GTEST_SKIP();
  const StockSimResult result = RunStockSeed(std::strtoull(given, nullptr, 10));
  EXPECT_EQ(result.failure, "") << result.report;
}

class StockMutants : public ::testing::TestWithParam<StockMutation> {};

TEST_P(StockMutants, AreCaught) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    if (!RunStockSeed(seed, GetParam()).failure.empty()) return;
  }
  FAIL() << "nothing was wrong in 1000 seeds";
}

INSTANTIATE_TEST_SUITE_P(
    Each, StockMutants,
    ::testing::Values(StockMutation::kIncrementsAreReads, StockMutation::kNumbersAnew,
                      StockMutation::kAcknowledgesEarly, StockMutation::kNewSessions,
                      StockMutation::kForgetsTheOthers, StockMutation::kFailsOnBreak,
                      StockMutation::kHeartbeatsWait, StockMutation::kLeavesQuietly,
                      StockMutation::kSpeaksTooEarly, StockMutation::kAnswersOneMore,
                      StockMutation::kForgetsAnswers, StockMutation::kTakesRetriesForNew,
                      StockMutation::kTakesOldArrivals));

}  // namespace
}  // namespace lockstep::sim

#include "lockstep/coord/sync_step.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <random>

#include "gtest/gtest.h"

namespace lockstep::coord {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST(LowestCommonStep, IsWhereTheFastestIs) {
  EXPECT_EQ(LowestCommonStep({{7}}), 7);
  EXPECT_EQ(LowestCommonStep({{3}, {9}, {4}}), 9);
}

TEST(LowestCommonStep, IsOnEveryStride) {
  EXPECT_EQ(LowestCommonStep({{100, 10}, {110, 10}}), 110);
  EXPECT_EQ(LowestCommonStep({{40, 10}, {45, 15}}), 60);
  EXPECT_EQ(LowestCommonStep({{103, 10}, {101}}), 103) << "resumed in the middle of a stride";
  EXPECT_EQ(LowestCommonStep({{3, 5}, {2, 7}}), 23);
}

TEST(LowestCommonStep, IsAbsentWhereStridesNeverMeet) {
  EXPECT_EQ(LowestCommonStep({{100, 2}, {101, 2}}), std::nullopt);
  EXPECT_EQ(LowestCommonStep({{0, 6}, {1, 4}}), std::nullopt);
}

TEST(LowestCommonStep, NeverLeaves64Bits) {
  EXPECT_EQ(LowestCommonStep({{kMost}}), kMost);
  EXPECT_EQ(LowestCommonStep({{kMost}, {0, kMost - 1}}), std::nullopt);
  EXPECT_EQ(LowestCommonStep({{1, kMost}, {2, kMost - 1}}), std::nullopt);
}

TEST(LowestCommonStep, IsWhatCountingFinds) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<StepOffer> offers;
    const size_t members = 1 + random() % 4;
    for (size_t i = 0; i < members; ++i) {
      offers.push_back(
          {static_cast<int64_t>(random() % 50), static_cast<int64_t>(1 + random() % 9)});
    }
    std::optional<int64_t> found;
    // Beyond the product of all strides nothing new comes.
    for (int64_t step = 0; step < 50 + 9 * 8 * 7 * 5 && !found; ++step) {
      bool in_all = true;
      for (const StepOffer& offer : offers) {
        in_all &= step >= offer.first && (step - offer.first) % offer.stride == 0;
      }
      if (in_all) found = step;
    }
    ASSERT_EQ(LowestCommonStep(offers), found) << "round " << round;
  }
}

}  // namespace
}  // namespace lockstep::coord

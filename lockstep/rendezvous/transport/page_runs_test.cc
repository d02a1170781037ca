#include "lockstep/rendezvous/transport/page_runs.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

constexpr uint64_t kPage = 4096;

TEST(PageRuns, GivesOutTheLowestThatFits) {
  PageRuns runs(10 * kPage);
  EXPECT_EQ(runs.Take(2 * kPage), 0u);
  EXPECT_EQ(runs.Take(3 * kPage), 2 * kPage);
  EXPECT_EQ(runs.Take(1 * kPage), 5 * kPage);
  runs.Give(0, 2 * kPage);
  EXPECT_EQ(runs.Take(3 * kPage), 6 * kPage);
  EXPECT_EQ(runs.Take(1 * kPage), 0u);
  EXPECT_EQ(runs.Take(1 * kPage), kPage);
}

TEST(PageRuns, HasNothingWhereNoRunIsLongEnough) {
  PageRuns runs(4 * kPage);
  for (uint64_t page = 0; page < 4; ++page) EXPECT_EQ(runs.Take(kPage), page * kPage);
  EXPECT_EQ(runs.Take(kPage), std::nullopt);
  runs.Give(0, kPage);
  runs.Give(2 * kPage, kPage);
  EXPECT_EQ(runs.Take(2 * kPage), std::nullopt);
  EXPECT_FALSE(runs.all_free());
}

TEST(PageRuns, JoinsWhatWasGivenBackWithItsNeighbours) {
  PageRuns runs(3 * kPage);
  for (int page = 0; page < 3; ++page) runs.Take(kPage);
  runs.Give(0, kPage);
  runs.Give(2 * kPage, kPage);
  runs.Give(kPage, kPage);
  EXPECT_TRUE(runs.all_free());
  EXPECT_EQ(runs.Take(3 * kPage), 0u);
}

TEST(PageRuns, NeverGivesOutAPageTwice) {
  constexpr uint64_t kPages = 200;
  struct Run {
    uint64_t first;
    uint64_t pages;
  };
  std::mt19937 random(7);
  PageRuns runs(kPages * kPage);
  std::vector<bool> taken(kPages);
  std::vector<Run> held;
  for (int round = 0; round < 20000; ++round) {
    const uint64_t pages = 1 + random() % 20;
    const auto offset = random() % 2 != 0 ? runs.Take(pages * kPage) : std::nullopt;
    if (offset) {
      const uint64_t first = *offset / kPage;
      for (uint64_t page = first; page < first + pages; ++page) {
        ASSERT_FALSE(taken.at(page));
        taken[page] = true;
      }
      held.push_back({first, pages});
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      const Run run = held.back();
      held.pop_back();
      runs.Give(run.first * kPage, run.pages * kPage);
      for (uint64_t page = run.first; page < run.first + run.pages; ++page) taken[page] = false;
    }
  }
  for (const Run& run : held) runs.Give(run.first * kPage, run.pages * kPage);
  EXPECT_TRUE(runs.all_free());
}

}  // namespace
}  // namespace lockstep::transport

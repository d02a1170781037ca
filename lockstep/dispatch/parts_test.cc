// The small parts alone: cursors, pools, and how many workers are wanted.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "lockstep/base/crc32c.h"
#include "lockstep/dispatch/cursor.h"
#include "lockstep/dispatch/dispatch_harness.h"
#include "lockstep/dispatch/pool.h"
#include "lockstep/dispatch/workers_wanted.h"

namespace lockstep::dispatch {
namespace {

// A cursor that somebody altered, and gave the right check value again.
std::string Altered(const std::string& next, const std::string& rests) {
  const std::string text = absl::StrCat("lockstep-cursor-1.d0.exact.0.0.0.", next, ".", rests);
  return absl::StrCat(text, ".", absl::StrFormat("%08x", Crc32c(0, text)));
}

TEST(Cursors, ComeBackAsTheyWere) {
  const Cursor cursor{.definition = "d0",
                      .mode = Mode::kRounds,
                      .round = 5,
                      .place = 1,
                      .next = 9,
                      .rests = {{1, 3}, {2, 0}, {3, 0}, {7, 2}}};
  const auto again = DecodeCursor(EncodeCursor(cursor));
  ASSERT_TRUE(std::holds_alternative<Cursor>(again)) << std::get<ErrorPtr>(again)->message;
  EXPECT_TRUE(SamePlace(std::get<Cursor>(again), cursor));
  EXPECT_EQ(std::get<Cursor>(again).rests, cursor.rests);
}

TEST(Cursors, WhatWasAlteredIsRefused) {
  ASSERT_TRUE(std::holds_alternative<Cursor>(DecodeCursor(Altered("9", "1:3,2-4"))));
  const auto refused = [](const std::string& next, const std::string& rests, const char* why) {
    const auto decoded = DecodeCursor(Altered(next, rests));
    ASSERT_TRUE(std::holds_alternative<ErrorPtr>(decoded)) << next << " " << rests;
    EXPECT_EQ(std::get<ErrorPtr>(decoded)->reason, "cursor_invalid");
    EXPECT_NE(std::get<ErrorPtr>(decoded)->message.find(why), std::string::npos)
        << std::get<ErrorPtr>(decoded)->message;
  };
  refused("9", "4,2", "do not rise");
  refused("9", "2:1,2:3", "do not rise");
  refused("3", "1,5", "behind its end");
  refused("2305843009213693952", "", "no version");  // 2^61
  refused("9", "1:2305843009213693952", "no version");
  refused("100000", "0-65535,70000", "65536 rests");
  refused("9", "+1", "no");
  refused("09", "1", "not as any version");
}

TEST(Pools, EachShareHasItsOwnSegmentsAndAllHaveAll) {
  const auto shape = std::make_shared<ToyShape>(11, 1, 4);
  for (const bool by_file : {false, true}) {
    std::set<int64_t> all;
    for (int64_t index = 0; index < 3; ++index) {
      Pool pool(shape, {.index = index, .count = 3, .by_file = by_file});
      while (const std::optional<SegmentRest> head = pool.Head()) {
        EXPECT_EQ((by_file ? head->segment % 4 : head->segment) % 3, index);
        EXPECT_TRUE(all.insert(head->segment).second);
        EXPECT_TRUE(pool.Take(*head));
      }
    }
    EXPECT_EQ(all.size(), 11u);
  }
}

TEST(Pools, WhatComesBackIsGivenFirst) {
  Pool pool(std::make_shared<ToyShape>(3, 1, 0), {});
  EXPECT_TRUE(pool.Take({0, 0}));
  EXPECT_TRUE(pool.Take({1, 0}));
  EXPECT_FALSE(pool.Take({1, 0}));
  pool.Return({1, 4});
  EXPECT_EQ(pool.Head(), (SegmentRest{1, 4}));
  EXPECT_FALSE(pool.Take({1, 3}));
  EXPECT_TRUE(pool.Take({1, 4}));
  EXPECT_TRUE(pool.Take({2, 0}));
  EXPECT_TRUE(pool.empty());
}

TEST(Pools, AShareOfAnEndlessDatasetIsFoundAtOnce) {
  Pool pool(std::make_shared<ToyShape>(kInfinite, 1, 0), {.index = 9'999, .count = 10'000});
  EXPECT_EQ(pool.Head(), (SegmentRest{9'999, 0}));
  pool.Begin(1'000'000'000'000, {});
  EXPECT_EQ(pool.Head(), (SegmentRest{1'000'000'009'999, 0}));
}

TEST(WorkersWantedAlone, IsWhatIsTakenOverWhatOneMakes) {
  WorkersWanted wanted;
  EXPECT_FALSE(wanted.Estimate());
  EXPECT_FALSE(wanted.ReportWorker(WorkerId(1), absl::ZeroDuration()));
  EXPECT_TRUE(wanted.ReportWorker(WorkerId(1), absl::Milliseconds(10)));
  EXPECT_FALSE(wanted.Estimate());
  EXPECT_TRUE(wanted.ReportConsumer(ConsumerId(1), absl::Milliseconds(2)));
  EXPECT_EQ(wanted.Estimate(), 5);
  EXPECT_TRUE(wanted.ForgetConsumer(ConsumerId(1)));
  EXPECT_FALSE(wanted.ForgetConsumer(ConsumerId(1)));
  EXPECT_FALSE(wanted.Estimate());
  EXPECT_EQ(BoundWorkersWanted(1'000, 10), 40);
  EXPECT_EQ(BoundWorkersWanted(10'000'000, 90'000), 90'500);
}

}  // namespace
}  // namespace lockstep::dispatch

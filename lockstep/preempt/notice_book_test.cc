#include "lockstep/preempt/notice_book.h"

#include "lockstep/testing/sights.h"

namespace lockstep::preempt {
namespace {

Time T(double seconds) { return Time() + absl::Seconds(seconds); }

TEST(NoticeBook, TellsANoticeOnce) {
  NoticeBook book("gce");
  const auto events = book.Update(T(10), {{.id = "a", .death = T(40), .text = "dies"}});
  ASSERT_EQ(events.size(), 1);
  EXPECT_EQ(events[0].source, "gce");
  EXPECT_EQ(events[0].id, "a");
  EXPECT_EQ(events[0].left, absl::Seconds(30));
  EXPECT_FALSE(events[0].withdrawn);
  EXPECT_TRUE(book.Update(T(11), {{.id = "a", .death = T(40), .text = "dies"}}).empty());
}

TEST(NoticeBook, ALeadIsCountedFromTheFirstSight) {
  NoticeBook book("gce");
  const Notice notice = {.id = "a", .lead = absl::Seconds(30)};
  EXPECT_EQ(book.Update(T(10), {notice}).at(0).left, absl::Seconds(30));
  EXPECT_TRUE(book.Update(T(25), {notice}).empty());
  Notice longer = notice;
  longer.lead = absl::Seconds(60);
  EXPECT_EQ(book.Update(T(25), {longer}).at(0).left, absl::Seconds(60));
}

TEST(NoticeBook, TellsWhenTheTimeOrTheTextIsAnother) {
  NoticeBook book("azure");
  book.Update(T(10), {{.id = "a", .death = T(40)}});
  EXPECT_TRUE(book.Update(T(11), {{.id = "a", .death = T(41.5)}}).empty());
  EXPECT_EQ(book.Update(T(11), {{.id = "a", .death = T(100)}}).at(0).left, absl::Seconds(89));
  EXPECT_EQ(book.Update(T(12), {{.id = "a", .death = T(100), .text = "x"}}).at(0).text, "x");
  EXPECT_EQ(book.Update(T(12), {{.id = "a", .text = "x"}}).at(0).left, std::nullopt);
}

TEST(NoticeBook, TellsWhatNoLongerStandsAndItsReturn) {
  NoticeBook book("file");
  book.Update(T(1), {{.id = "a"}, {.id = "b"}});
  const auto gone = book.Update(T(2), {{.id = "b"}});
  ASSERT_EQ(gone.size(), 1);
  EXPECT_EQ(gone[0].id, "a");
  EXPECT_TRUE(gone[0].withdrawn);
  const auto back = book.Update(T(3), {{.id = "a"}, {.id = "b"}});
  ASSERT_EQ(back.size(), 1);
  EXPECT_FALSE(back[0].withdrawn);
}

TEST(NoticeBook, WhatIsOverdueIsDueNow) {
  NoticeBook book("aws");
  EXPECT_EQ(book.Update(T(100), {{.id = "a", .death = T(40)}}).at(0).left, absl::ZeroDuration());
}

TEST(NoticeBook, HoldsNoMoreThanItsBound) {
  NoticeBook book("http");
  std::vector<Notice> many;
  for (int i = 0; i < 300; ++i) many.push_back({.id = std::to_string(i)});
  EXPECT_EQ(book.Update(T(1), many).size(), NoticeBook::kNoticesMax);
  EXPECT_TRUE(book.Update(T(2), many).empty());
}

}  // namespace
}  // namespace lockstep::preempt

#include "lockstep/client/use_counters.h"

#include "gtest/gtest.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

absl::Status Failed(std::string_view reason) {
  return wire::native::WithReason(absl::InternalError("x"), reason);
}

TEST(UseCounters, CountsAUseWhenItIsOver) {
  UseCounters counters;
  EXPECT_EQ(*counters.Begin("b"), 0);
  counters.End("b", absl::OkStatus());
  EXPECT_EQ(*counters.Begin("b"), 1);
  EXPECT_EQ(*counters.Begin("other"), 0);
  counters.End("b", Failed("barrier_timed_out"));
  EXPECT_EQ(*counters.Begin("b"), 2);
}

TEST(UseCounters, MakesACallThatWentWrongOnItsWayUnderTheSameNumber) {
  UseCounters counters;
  EXPECT_EQ(*counters.Begin("b"), 0);
  counters.End("b", Failed("deadline_exceeded"));
  EXPECT_EQ(*counters.Begin("b"), 0);
  counters.End("b", Failed("limit_exceeded"));
  EXPECT_EQ(*counters.Begin("b"), 0);
}

TEST(UseCounters, BelievesTheServerWhichUseIsOver) {
  UseCounters counters;
  EXPECT_EQ(*counters.Begin("b"), 0);
  counters.End("b", wire::native::WithDetail(Failed("barrier_counter_mismatch"), "counter", "4"));
  EXPECT_EQ(*counters.Begin("b"), 5);
}

TEST(UseCounters, RefusesASecondUseAtTheSameTime) {
  UseCounters counters;
  ASSERT_TRUE(counters.Begin("b").ok());
  const auto second = counters.Begin("b");
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status()));
  EXPECT_EQ(wire::native::ReasonOf(second.status()), "call_open");
  EXPECT_TRUE(counters.Begin("c").ok());
}

TEST(UseCounters, ForgetsWhatWasUsedLongestAgo) {
  UseCounters counters(/*names_max=*/2);
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(counters.Begin(name).ok());
    counters.End(name, absl::OkStatus());
  }
  EXPECT_EQ(*counters.Begin("a"), 0);
  EXPECT_EQ(*counters.Begin("b"), 1);
  EXPECT_EQ(*counters.Begin("c"), 1);
}

}  // namespace
}  // namespace lockstep::client

#include "lockstep/coord/shutdown_barrier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::coord {
namespace {

using ::testing::HasSubstr;

Time At(double seconds) { return Time() + absl::Seconds(seconds); }

class ShutdownBarrierTest : public testing::Test {
 protected:
  ShutdownBarrierTest() {
    for (int32_t i = 0; i < 2; ++i) {
      membership_.BeginLife(Time(), MemberIndex(i), Incarnation(10 + i), "peer");
      membership_.Connect(Time(), MemberIndex(i));
    }
  }

  JobRecord job_{CoordinatorOptions{.size = 2, .shutdown_timeout = absl::Seconds(60)}};
  Membership membership_{job_};
  ShutdownBarrier barrier_{job_, membership_, ServiceIncarnation(7)};
  Effects out_;
};

TEST_F(ShutdownBarrierTest, ReturnsAllCallsWhenTheLastMemberArrives) {
  EXPECT_EQ(barrier_.Open(At(1)), nullptr);
  EXPECT_FALSE(barrier_.Arrive(MemberIndex(1), CallId(1), out_));
  EXPECT_TRUE(barrier_.Arrive(MemberIndex(0), CallId(2), out_));

  const std::vector<Gathering::Arrival> leaving = barrier_.Pass(out_);

  ASSERT_EQ(leaving.size(), 2u);
  EXPECT_EQ(leaving[0].call, CallId(2)) << "in the order of the members";
  EXPECT_TRUE(barrier_.ended());
  EXPECT_EQ(barrier_.verdict(), nullptr);
  EXPECT_EQ(barrier_.waits(), 0u);
  EXPECT_EQ(out_.records.size(), 1u);
}

TEST_F(ShutdownBarrierTest, IsIdleAgainWhenTheLastWaiterLeaves) {
  barrier_.Open(At(1));
  barrier_.Arrive(MemberIndex(1), CallId(1), out_);

  EXPECT_TRUE(barrier_.Forget(CallId(1)));

  EXPECT_FALSE(barrier_.open());
  EXPECT_FALSE(barrier_.ended());
  EXPECT_FALSE(barrier_.Forget(CallId(1)));
  EXPECT_TRUE(barrier_.NextDeadline().is_infinite());
}

TEST_F(ShutdownBarrierTest, ANewerCallOfAMemberTakesThePlaceOfItsOlderOne) {
  barrier_.Open(At(1));
  barrier_.Arrive(MemberIndex(1), CallId(1), out_);
  barrier_.Arrive(MemberIndex(1), CallId(2), out_);

  ASSERT_EQ(out_.replies.size(), 1u);
  EXPECT_EQ(out_.replies[0].call, CallId(1));
  EXPECT_EQ(out_.replies[0].error->reason, Reason::kSuperseded);
  EXPECT_FALSE(barrier_.Forget(CallId(1)));
}

TEST_F(ShutdownBarrierTest, NamesTheMissingWhenItsTimeIsUp) {
  barrier_.Open(At(1));
  barrier_.Arrive(MemberIndex(1), CallId(1), out_);
  EXPECT_EQ(barrier_.NextDeadline(), At(61));
  EXPECT_EQ(barrier_.Overdue(At(60.9)), nullptr);

  const ErrorPtr late = barrier_.Overdue(At(61));
  ASSERT_NE(late, nullptr);
  EXPECT_THAT(late->message, HasSubstr("1/2 members; missing task/0#1"));
  barrier_.Fail(late, out_);

  ASSERT_EQ(out_.replies.size(), 1u);
  EXPECT_EQ(out_.replies[0].error, barrier_.verdict());
  EXPECT_EQ(barrier_.verdict()->reason, Reason::kShutdownFailed);
}

TEST_F(ShutdownBarrierTest, OpensWithTheErrorOfAMemberThatNeverArrives) {
  const ErrorPtr lost = MakeError({.message = "lost"});
  membership_.Fail(At(1), MemberIndex(0), lost);

  EXPECT_EQ(barrier_.Open(At(2)), lost);
}

TEST_F(ShutdownBarrierTest, DoesNotAwaitRecoverableMembers) {
  job_.recoverable[0] = 1;

  EXPECT_EQ(barrier_.Open(At(1)), nullptr);

  EXPECT_FALSE(barrier_.Includes(MemberIndex(0)));
  EXPECT_TRUE(barrier_.Arrive(MemberIndex(1), CallId(1), out_));
}

}  // namespace
}  // namespace lockstep::coord

#include "lockstep/coord/error_polls.h"

#include <gtest/gtest.h>

namespace lockstep::coord {
namespace {

Time At(double seconds) { return Time() + absl::Seconds(seconds); }

class ErrorPollsTest : public testing::Test {
 protected:
  ErrorPollsTest() {
    for (int32_t i = 0; i < 3; ++i) {
      membership_.BeginLife(Time(),
                            {.member = MemberIndex(i),
                             .incarnation = Incarnation(10 + i),
                             .session = i == kNative.value() ? SessionId{7, 7} : SessionId{}});
      membership_.Connect(Time(), MemberIndex(i));
    }
  }

  bool Broke(MemberIndex member) const { return membership_.detector().Of(member).broke(); }

  static constexpr MemberIndex kNative = MemberIndex(2);

  JobRecord job_{CoordinatorOptions{.size = 3}};
  Membership membership_{job_};
  ErrorPolls polls_{job_, membership_};
  Effects out_;
};

TEST_F(ErrorPollsTest, AnswerAllWhenTheAttemptFailsAndLatePollsAtOnce) {
  const ErrorPtr error = MakeError({.message = "failed"});
  polls_.Poll(At(1), MemberIndex(1), CallId(1), nullptr, out_);
  polls_.Poll(At(1), MemberIndex(0), CallId(2), nullptr, out_);
  EXPECT_EQ(polls_.waits(), 2u);

  polls_.FailAll(error, out_);
  polls_.Poll(At(2), kNative, CallId(3), error, out_);

  ASSERT_EQ(out_.replies.size(), 3u);
  EXPECT_EQ(out_.replies[0].call, CallId(2)) << "in the order of the members";
  EXPECT_EQ(out_.replies[2].call, CallId(3));
  for (const Reply& reply : out_.replies) EXPECT_EQ(reply.error, error);
  EXPECT_TRUE(polls_.WasTold(MemberIndex(1)));
  EXPECT_EQ(polls_.waits(), 0u);
  EXPECT_FALSE(polls_.Forget(At(3), {.call = CallId(1)})) << "it is answered";
}

TEST_F(ErrorPollsTest, ThePollOfAStockMemberStandsForItsConnection) {
  polls_.Poll(At(1), MemberIndex(0), CallId(1), nullptr, out_);
  polls_.Poll(At(1), kNative, CallId(2), nullptr, out_);

  EXPECT_TRUE(polls_.Forget(At(2), {.call = CallId(1)}));
  EXPECT_TRUE(polls_.Forget(At(2), {.call = CallId(2)}));

  EXPECT_TRUE(Broke(MemberIndex(0)));
  EXPECT_FALSE(Broke(kNative)) << "its session tells";
  polls_.Poll(At(3), MemberIndex(0), CallId(3), nullptr, out_);
  EXPECT_FALSE(Broke(MemberIndex(0)));
}

TEST_F(ErrorPollsTest, APollThatAnAgentPassesOnDoesNotStandForTheAgentsLink) {
  polls_.Poll(At(1), MemberIndex(0), CallId(1), nullptr, out_);

  EXPECT_TRUE(polls_.Forget(At(2), {.call = CallId(1), .agent = CallLeft::Agent::kAway}));

  EXPECT_FALSE(Broke(MemberIndex(0)));
  EXPECT_EQ(membership_.detector().Of(MemberIndex(0)).link, FailureDetector::Link::kSilent);
  polls_.Poll(At(3), MemberIndex(0), CallId(2), nullptr, out_);
  EXPECT_EQ(membership_.detector().Of(MemberIndex(0)).link, FailureDetector::Link::kUp);
}

TEST_F(ErrorPollsTest, UntilTheFirstPollTheRegistrationStandsForIt) {
  polls_.AwaitFirst(MemberIndex(0), CallId(1));
  polls_.AwaitFirst(MemberIndex(1), CallId(2));
  polls_.Poll(At(1), MemberIndex(1), CallId(3), nullptr, out_);
  EXPECT_EQ(polls_.waits(), 1u) << "a registration is answered";

  EXPECT_TRUE(polls_.Forget(At(2), {.call = CallId(1)}));
  EXPECT_FALSE(polls_.Forget(At(2), {.call = CallId(2)}));

  EXPECT_TRUE(Broke(MemberIndex(0)));
  EXPECT_FALSE(Broke(MemberIndex(1)));
}

TEST_F(ErrorPollsTest, ANewerPollTakesThePlaceOfTheOlderOne) {
  polls_.Poll(At(1), MemberIndex(0), CallId(1), nullptr, out_);
  polls_.Poll(At(2), MemberIndex(0), CallId(2), nullptr, out_);

  ASSERT_EQ(out_.replies.size(), 1u);
  EXPECT_EQ(out_.replies[0].call, CallId(1));
  EXPECT_EQ(out_.replies[0].error->reason, Reason::kSuperseded);
  EXPECT_FALSE(polls_.WasTold(MemberIndex(0)));
}

}  // namespace
}  // namespace lockstep::coord

// Rows 9-11 and 13-24: who is told of an error, by the poll that each member parks.
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::HasError;
using lockstep::testing::HasText;
using lockstep::testing::IsAbout;
using lockstep::testing::Succeeded;
using lockstep::testing::Who;
using ::testing::AllOf;
using ::testing::Not;

TEST(Conformance, Row009_BothFallSilentAndBothPollsSayUnavailable) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId poll0 = h.Poll(0);
  const CallId poll1 = h.Poll(1);
  h.Advance(absl::Seconds(10));
  for (int member : {0, 1}) h.Heartbeat(member);  // so often are they to be expected

  h.Advance(absl::Seconds(101));

  for (CallId poll : {poll0, poll1}) {
    EXPECT_THAT(h.Reply(poll),
                HasError(StatusCode::kUnavailable, Reason::kHeartbeatTimeout, "task/0", "task/1"));
  }
}

TEST(Conformance, Row010_OnlyTheStaleTaskIsNamedToBothPolls) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId poll0 = h.Poll(0);
  const CallId poll1 = h.Poll(1);
  h.KeepAlive({0});
  h.Advance(absl::Seconds(10));
  h.Heartbeat(1);  // so often is it to be expected

  h.Advance(absl::Seconds(101));

  for (CallId poll : {poll0, poll1}) {
    EXPECT_THAT(h.Reply(poll), HasError(StatusCode::kUnavailable, "task/1"));
    EXPECT_THAT(h.Reply(poll), AllOf(IsAbout(1), Not(HasText("task/0"))));
  }
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), Succeeded());
  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
}

TEST(Conformance, Row011_AReportedErrorReachesBothPollsWithItsCodeAndOrigin) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId poll0 = h.Poll(0);
  const CallId poll1 = h.Poll(1);

  ASSERT_THAT(h.Reply(h.Report(1, StatusCode::kInternal, "HBM went up in smoke")), Succeeded());

  for (CallId poll : {poll0, poll1}) {
    EXPECT_THAT(h.Reply(poll),
                HasError(StatusCode::kInternal, Reason::kReportedError, "HBM went up in smoke"));
    EXPECT_THAT(h.Reply(poll), IsAbout(1));
    EXPECT_TRUE(h.Reply(poll).error->reported);
    EXPECT_TRUE(h.Reply(poll).error->from_service);
  }
  EXPECT_EQ(h.Condition(1), MemberCondition::kFailed);
}

TEST(Conformance, Row011_ReportsOfStrangersAndOfMembersNotConnectedAreRefused) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::ZeroDuration()});
  h.RegisterAll();
  const CallId poll = h.Poll(1);
  h.Leave(0);

  EXPECT_THAT(h.Reply(h.Report(0, StatusCode::kInternal, "too late")),
              HasError(StatusCode::kFailedPrecondition));
  EXPECT_THAT(h.Reply(h.Report(9, StatusCode::kInternal, "who?")),
              HasError(StatusCode::kInvalidArgument, Reason::kUnknownMember));
  EXPECT_TRUE(h.Pending(poll));
}

TEST(Conformance, Row013_StoppingTheServiceCancelsParkedPolls) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId poll0 = h.Poll(0);
  const CallId poll1 = h.Poll(1);

  h.Stop();

  EXPECT_THAT(h.Reply(poll0), HasError(StatusCode::kCancelled));
  EXPECT_THAT(h.Reply(poll1), HasError(StatusCode::kCancelled));
}

TEST(Conformance, Row014_ThePollOfAStrangerIsRefused) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();

  EXPECT_THAT(h.Reply(h.Poll(2)),
              HasError(StatusCode::kInvalidArgument, Reason::kUnknownMember, "not in the cluster"));
}

TEST(Conformance, Row015_APollBeforeRegisteringIsRefused) {
  CoordinatorHarness h({.size = 2});

  EXPECT_THAT(h.Reply(h.Poll(0)), HasError(StatusCode::kFailedPrecondition, Reason::kNotRegistered,
                                           "has not been registered"));
}

TEST(Conformance, Row016_APollShortlyAfterLeavingParksAndIsCancelledAtTheStop) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::ZeroDuration()});
  h.RegisterAll();
  h.KeepAlive({1});
  h.Leave(0);
  h.Advance(absl::Seconds(50));

  const CallId poll = h.Poll(0);
  EXPECT_TRUE(h.Pending(poll));
  h.Stop();

  EXPECT_THAT(h.Reply(poll), HasError(StatusCode::kCancelled));
}

TEST(Conformance, Row017_APollAfterTheGracePeriodIsRefused) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::ZeroDuration()});
  h.RegisterAll();
  h.KeepAlive({1});
  h.Leave(0);

  h.Advance(absl::Seconds(101));

  EXPECT_THAT(h.Reply(h.Poll(0)),
              HasError(StatusCode::kFailedPrecondition, Reason::kMemberLeft, "has disconnected"));
}

TEST(Conformance, Row018_APollAfterAResetAndTheGracePeriodIsRefused) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.KeepAlive({1});
  h.Reset(0);

  h.Advance(absl::Seconds(101));

  EXPECT_THAT(h.Reply(h.Poll(0)),
              HasError(StatusCode::kFailedPrecondition, Reason::kMemberLeft, "has disconnected"));
}

TEST(Conformance, Row018_LeavingCancelsTheMembersOwnPollWithTheMark) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId poll0 = h.Poll(0);
  const CallId poll1 = h.Poll(1);

  h.Reset(0);

  EXPECT_THAT(h.Reply(poll0), HasError(StatusCode::kCancelled, Reason::kMemberLeft));
  EXPECT_TRUE(h.Reply(poll0).error->from_service);
  EXPECT_TRUE(h.Pending(poll1));
}

TEST(Conformance, Row018_ANewPollOfTheSameMemberCancelsTheOldOne) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId older = h.Poll(0);
  const CallId newer = h.Poll(0);

  EXPECT_THAT(h.Reply(older), HasError(StatusCode::kCancelled, Reason::kSuperseded));
  EXPECT_TRUE(h.Reply(older).error->from_service);
  EXPECT_TRUE(h.Pending(newer));
}

TEST(Conformance, Row019_APollWhileInErrorIsRefused) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Poll(1);
  h.Report(0, StatusCode::kInternal, "broken");

  EXPECT_THAT(h.Reply(h.Poll(0)),
              HasError(StatusCode::kFailedPrecondition, Reason::kMemberFailed, "already in error"));
}

TEST(Conformance, Row020_APollAfterFallingSilentIsRefused) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();

  h.Advance(absl::Seconds(101));

  EXPECT_THAT(h.Reply(h.Poll(0)), HasError(StatusCode::kFailedPrecondition, "already in error"));
}

TEST(Conformance, Row021_AWrongReRegistrationReachesTheOthersPolls) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId poll = h.Poll(1);

  h.Register(0, 555);

  EXPECT_THAT(h.Reply(poll), HasError(StatusCode::kAborted, Reason::kMemberRestarted, "task/0"));
  EXPECT_THAT(h.Reply(poll), IsAbout(0));
}

TEST(Conformance, Row021_SoDoesAHeartbeatOfAnotherIncarnation) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId poll = h.Poll(1);

  h.Heartbeat(Who(0).As(555));

  EXPECT_THAT(h.Reply(poll), HasError(StatusCode::kAborted, Reason::kMemberRestarted));
}

TEST(Conformance, Row022_ALaterPollGetsTheErrorAtOnce) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  const CallId early = h.Poll(0);
  h.Report(1, StatusCode::kDataLoss, "checkpoint is gone");

  const CallId late = h.Poll(2);

  EXPECT_THAT(h.Reply(late), HasError(StatusCode::kDataLoss, "checkpoint is gone"));
  EXPECT_EQ(h.Reply(late).error->message, h.Reply(early).error->message);
}

TEST(Conformance, Row023_RecoverableAReportedErrorLeavesTheOthersAlone) {
  CoordinatorHarness h({.size = 2, .recoverable = true});
  h.RegisterAll();

  h.Report(0, StatusCode::kInternal, "broken");

  EXPECT_THAT(h.Reply(h.Heartbeat(1)), Succeeded());
  EXPECT_EQ(h.Condition(0), MemberCondition::kFailed);
  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
}

TEST(Conformance, Row024_RecoverableAReportedErrorLeavesPollsParked) {
  CoordinatorHarness h({.size = 3, .recoverable = true});
  h.RegisterAll();
  const CallId poll1 = h.Poll(1);
  const CallId poll2 = h.Poll(2);

  h.Report(0, StatusCode::kInternal, "broken");

  EXPECT_TRUE(h.Pending(poll1));
  EXPECT_TRUE(h.Pending(poll2));
}

TEST(Conformance, Row025_RecoverableReportHeartbeatResetRegister) {
  CoordinatorHarness h({.size = 2, .recoverable = true});
  h.RegisterAll();
  ASSERT_THAT(h.Reply(h.Report(0, StatusCode::kInternal, "broken")), Succeeded());

  EXPECT_THAT(h.Reply(h.Heartbeat(0)), HasError(StatusCode::kAborted, "broken"));
  EXPECT_THAT(h.Reply(h.Reset(0)), Succeeded());
  EXPECT_THAT(h.Reply(h.Register(0, 200)), Succeeded());
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), Succeeded());
}

}  // namespace
}  // namespace lockstep::coord

// Rows 41 and 47-57: leaving a job, together or alone, and what the loss of a member does to
// those who leave.
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::HasError;
using lockstep::testing::IsAbout;
using lockstep::testing::Succeeded;
using ::testing::AllOf;

TEST(Conformance, Row041_ShutdownIsAnsweredWhenAllHaveAsked) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  const CallId leave0 = h.Leave(0);
  const CallId leave1 = h.Leave(1);
  EXPECT_TRUE(h.Pending(leave0));
  EXPECT_EQ(h.View().state, AttemptState::kLeaving);

  const CallId leave2 = h.Leave(2);

  for (CallId leave : {leave0, leave1, leave2}) EXPECT_THAT(h.Reply(leave), Succeeded());
  EXPECT_EQ(h.Condition(0), MemberCondition::kLeft);
  EXPECT_EQ(h.View().state, AttemptState::kEnded);
}

TEST(Conformance, Row047_AfterShutdownBothMayRegisterAgainAsNewIncarnations) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Leave(0);
  EXPECT_THAT(h.Reply(h.Leave(1)), Succeeded());

  const CallId again0 = h.Register(0, 200);
  const CallId again1 = h.Register(1, 201);

  EXPECT_THAT(h.Reply(again0), Succeeded());
  EXPECT_THAT(h.Reply(again1), Succeeded());
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), Succeeded());
}

TEST(Conformance, Row048_AMissingMemberFailsTheShutdownAndTheOthersAreAlerted) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.KeepAlive({0, 1});
  const CallId poll1 = h.Poll(1);
  const CallId leave0 = h.Leave(0);

  h.Advance(absl::Minutes(5) - absl::Nanoseconds(1));
  EXPECT_TRUE(h.Pending(leave0));
  h.Advance(absl::Nanoseconds(1));

  EXPECT_THAT(h.Reply(leave0), HasError(StatusCode::kInternal, Reason::kShutdownFailed,
                                        "Shutdown barrier has failed", "timed out", "task/1"));
  EXPECT_THAT(h.Reply(poll1), HasError(StatusCode::kInternal, "Shutdown barrier has failed"));
}

TEST(Conformance, Row048_AfterAFailedShutdownTheOldIncarnationMayNotRegister) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::Seconds(30)});
  h.RegisterAll();
  h.Poll(1);
  h.Leave(0);
  h.Advance(absl::Seconds(30));

  EXPECT_THAT(h.Reply(h.Register(0, 100)), HasError(StatusCode::kAborted));
  EXPECT_THAT(h.Reply(h.Register(1, 101)), HasError(StatusCode::kAborted));
}

TEST(Conformance, Row049_WithoutPollersTheAbsentLearnsByItsHeartbeat) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::Seconds(30)});
  h.RegisterAll();
  const CallId leave0 = h.Leave(0);

  h.Advance(absl::Seconds(30));

  EXPECT_THAT(h.Reply(leave0), HasError(StatusCode::kInternal));
  EXPECT_THAT(h.Reply(h.Heartbeat(1)), HasError(StatusCode::kAborted));
}

TEST(Conformance, Row050_AMemberThatVanishesFailsTheShutdownOfTheOthers) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  h.KeepAlive({0, 1});
  const CallId leave0 = h.Leave(0);
  const CallId leave1 = h.Leave(1);

  h.Advance(absl::Seconds(100));

  for (CallId leave : {leave0, leave1}) {
    EXPECT_THAT(h.Reply(leave), HasError(StatusCode::kInternal, "Shutdown barrier has failed",
                                         "heartbeat timeout", "task/2"));
  }
}

TEST(Conformance, Row050_TheSameWhenTheOthersPoll) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  h.KeepAlive({0, 1});
  const std::vector<CallId> polls = h.PollAll();
  h.Advance(absl::Seconds(10));
  h.Heartbeat(2);  // so often is it to be expected
  const CallId leave0 = h.Leave(0);

  h.Advance(absl::Seconds(100));

  EXPECT_THAT(h.Reply(leave0), HasError(StatusCode::kInternal, "Shutdown barrier has failed"));
  EXPECT_THAT(h.Reply(polls[0]), AllOf(HasError(StatusCode::kUnavailable), IsAbout(2)));
  EXPECT_THAT(h.Reply(polls[1]), AllOf(HasError(StatusCode::kUnavailable), IsAbout(2)));
}

TEST(Conformance, Row050_AMemberKilledWhileItLeavesFailsTheShutdownAtOnce) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  const std::vector<CallId> polls = h.PollAll();
  const CallId leave0 = h.Leave(0);
  const CallId leave2 = h.Leave(2);

  h.Hangup(leave2);
  h.Hangup(polls[2]);
  h.Advance(absl::Milliseconds(200));

  EXPECT_THAT(h.Reply(leave0), HasError(StatusCode::kInternal, "Shutdown barrier has failed"));
  EXPECT_THAT(h.Reply(polls[1]), AllOf(HasError(StatusCode::kUnavailable), IsAbout(2)));
}

TEST(Conformance, Row051_AProperShutdownIsNoErrorToAnybody) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const std::vector<CallId> polls = h.PollAll();
  const CallId leave0 = h.Leave(0);
  h.Advance(absl::Seconds(50));
  const CallId leave1 = h.Leave(1);

  EXPECT_THAT(h.Reply(leave0), Succeeded());
  EXPECT_THAT(h.Reply(leave1), Succeeded());
  for (CallId poll : polls) EXPECT_THAT(h.Reply(poll), HasError(StatusCode::kCancelled));
  EXPECT_TRUE(h.View().errors.empty());
}

TEST(Conformance, Row052_BothLearnOfAShutdownThatTimedOut) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::Seconds(10)});
  h.RegisterAll();
  const std::vector<CallId> polls = h.PollAll();
  const CallId leave0 = h.Leave(0);

  h.Advance(absl::Seconds(10));

  EXPECT_THAT(h.Reply(leave0), HasError(StatusCode::kInternal));
  EXPECT_THAT(h.Reply(polls[1]), HasError(StatusCode::kInternal));
}

TEST(Conformance, Row053_AServiceThatGoesFirstAnswersAllAndRefusesTheRest) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId poll1 = h.Poll(1);
  const CallId leave0 = h.Leave(0);

  h.Stop();

  EXPECT_THAT(h.Reply(poll1), HasError(StatusCode::kCancelled));
  EXPECT_FALSE(h.Pending(leave0));
  EXPECT_THAT(h.Reply(h.Leave(1)), HasError(StatusCode::kInternal, Reason::kServiceStopped));
  EXPECT_THAT(h.Reply(h.Heartbeat(1)), HasError(StatusCode::kInternal, Reason::kServiceStopped));
  EXPECT_THAT(h.Reply(h.Poll(1)), HasError(StatusCode::kInternal, Reason::kServiceStopped));
  EXPECT_EQ(h.View().state, AttemptState::kStopped);
}

TEST(Conformance, Row054_AMemberThatVanishesMidRunIsToldToEveryOther) {
  CoordinatorHarness h({.size = 4});
  h.RegisterAll();
  h.KeepAlive({0, 1, 3});
  const std::vector<CallId> polls = h.PollAll();
  h.Advance(absl::Seconds(10));
  h.Heartbeat(2);  // so often is it to be expected

  h.Advance(absl::Seconds(100));

  for (int member : {0, 1, 3}) {
    EXPECT_THAT(h.Reply(polls[static_cast<size_t>(member)]),
                HasError(StatusCode::kUnavailable, "task/2"));
  }
}

TEST(Conformance, Row055_RecoverableDoesNotWaiveTheInitialMembership) {
  CoordinatorHarness h({.size = 2, .register_timeout = absl::Seconds(20), .recoverable = true});
  const CallId call0 = h.Register(0, 100);

  h.Advance(absl::Seconds(20));

  EXPECT_THAT(h.Reply(call0), HasError(StatusCode::kDeadlineExceeded, "task/1"));
}

TEST(Conformance, Row056_TheDeathOfAMemberReachesTheOthersAsUnavailable) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const std::vector<CallId> polls = h.PollAll();

  h.Hangup(polls[1]);
  h.Advance(absl::Seconds(1));

  EXPECT_THAT(h.Reply(polls[0]), HasError(StatusCode::kUnavailable, "task/1"));
}

TEST(Conformance, Row057_TheDeathOfARecoverableMemberIsToldToNobody) {
  CoordinatorHarness h({.size = 2, .recoverable = true});
  h.RegisterAll();
  h.KeepAlive({0});
  const std::vector<CallId> polls = h.PollAll();

  h.Hangup(polls[1]);
  h.Advance(absl::Minutes(10));

  EXPECT_TRUE(h.Pending(polls[0]));
  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), Succeeded());
}

TEST(Shutdown, RecoverableMembersLeaveAlone) {
  CoordinatorHarness h({.size = 2, .recoverable = true});
  h.RegisterAll();

  EXPECT_THAT(h.Reply(h.Leave(0)), Succeeded());
  EXPECT_EQ(h.Condition(0), MemberCondition::kLeft);
  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
}

TEST(Shutdown, AMemberThatResetsMeanwhileFailsIt) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  const CallId leave0 = h.Leave(0);

  h.Reset(1);

  EXPECT_THAT(h.Reply(leave0),
              HasError(StatusCode::kInternal, "Shutdown barrier has failed", "task/1"));
}

TEST(Shutdown, ACallerThatHangsUpIsWithdrawnAndMayAskAgain) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId gone = h.Leave(0);
  h.Hangup(gone);

  const CallId leave1 = h.Leave(1);
  EXPECT_TRUE(h.Pending(leave1));

  EXPECT_THAT(h.Reply(h.Leave(0)), Succeeded());
  EXPECT_THAT(h.Reply(leave1), Succeeded());
}

}  // namespace
}  // namespace lockstep::coord

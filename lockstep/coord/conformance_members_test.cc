// Rows 1-8 and 12, 25-28: registration and heartbeats, as upstream's service answers them.
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::HasError;
using lockstep::testing::Succeeded;
using lockstep::testing::Who;

TEST(Conformance, Row001_TwoMembersRegisterAndHeartbeat) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();

  const Reply beat0 = h.Reply(h.Heartbeat(0));
  const Reply beat1 = h.Reply(h.Heartbeat(1));

  EXPECT_THAT(beat0, Succeeded());
  EXPECT_THAT(beat1, Succeeded());
  EXPECT_EQ(std::get<HeartbeatTaken>(beat0.answer).service, h.service());
}

TEST(Conformance, Row002_HeartbeatOfAStrangerIsRefused) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();

  EXPECT_THAT(h.Reply(h.Heartbeat(2)),
              HasError(StatusCode::kInvalidArgument, Reason::kUnknownMember));
  EXPECT_THAT(h.Reply(h.Heartbeat(-1)),
              HasError(StatusCode::kInvalidArgument, Reason::kUnknownMember));
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), Succeeded());
}

TEST(Conformance, Row002_RegistrationOfAStrangerIsRefusedAndTouchesNobody) {
  CoordinatorHarness h({.size = 2});

  EXPECT_THAT(h.Reply(h.Register(2, 7)),
              HasError(StatusCode::kInvalidArgument, Reason::kUnknownMember));
  EXPECT_THAT(h.Reply(h.Register(-5, 7)),
              HasError(StatusCode::kInvalidArgument, Reason::kUnknownMember));

  h.RegisterAll();
  EXPECT_THAT(h.Reply(h.Heartbeat(1)), Succeeded());
}

TEST(Conformance, Row003_HeartbeatOfAnotherIncarnationIsAborted) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();

  EXPECT_THAT(h.Reply(h.Heartbeat(Who(0).As(999))),
              HasError(StatusCode::kAborted, Reason::kMemberRestarted, "task/0"));
}

TEST(Conformance, Row004_RegisteringAgainAsTheSameIncarnationIsARetry) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const ServiceIncarnation service = h.service();

  const Reply again = h.Reply(h.Register(0, 100));

  EXPECT_THAT(again, Succeeded());
  EXPECT_EQ(std::get<Registered>(again.answer).service, service);
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST(Conformance, Row004_ARetryOfTheRegistrationIsASignOfLife) {
  CoordinatorHarness h({.size = 1});
  h.RegisterAll();

  h.Advance(absl::Seconds(60));
  h.Register(0, 100);
  h.Advance(absl::Seconds(99));

  EXPECT_THAT(h.Reply(h.Heartbeat(0)), Succeeded());
}

TEST(Conformance, Row005_RegisteringAsAnotherIncarnationWhileConnectedIsAborted) {
  CoordinatorHarness h({.size = 1});
  h.RegisterAll();

  EXPECT_THAT(h.Reply(h.Register(0, 555)),
              HasError(StatusCode::kAborted, Reason::kMemberRestarted));
}

TEST(Conformance, Row006_RegisteringWhileInErrorIsAbortedQuotingTheError) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.PollAll();
  ASSERT_THAT(h.Reply(h.Report(0, StatusCode::kInternal, "the device is gone")), Succeeded());

  EXPECT_THAT(h.Reply(h.Register(0, 100)), HasError(StatusCode::kAborted, "the device is gone"));
}

TEST(Conformance, Row007_BothFallSilentAndTheirNextHeartbeatsAreAborted) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();

  h.Advance(absl::Seconds(150));

  EXPECT_EQ(h.Condition(0), MemberCondition::kLost);
  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), HasError(StatusCode::kAborted, "heartbeat timeout"));
  EXPECT_THAT(h.Reply(h.Heartbeat(1)), HasError(StatusCode::kAborted, "heartbeat timeout"));
}

TEST(Conformance, Row008_WithoutPollersEverybodyLearnsOfALossByTheNextHeartbeat) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  h.KeepAlive({0, 2});

  h.Advance(absl::Seconds(101));

  EXPECT_THAT(h.Reply(h.Heartbeat(0)), HasError(StatusCode::kAborted, "task/1"));
  EXPECT_THAT(h.Reply(h.Heartbeat(1)), HasError(StatusCode::kAborted, "heartbeat timeout"));
  EXPECT_THAT(h.Reply(h.Heartbeat(2)), HasError(StatusCode::kAborted, "task/1"));
}

TEST(Conformance, Row012_ComingBackAsARandomNewIncarnationIsAborted) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();

  EXPECT_THAT(h.Reply(h.Register(1, 0xfeed'beef'0bad'cafe)),
              HasError(StatusCode::kAborted, Reason::kMemberRestarted, "task/1"));
}

TEST(Conformance, Row026_AMemberResetsAndRegistersAgain) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const ServiceIncarnation service = h.service();

  EXPECT_THAT(h.Reply(h.Reset(0)), Succeeded());
  EXPECT_EQ(h.Condition(0), MemberCondition::kLeft);
  const Reply again = h.Reply(h.Register(0, 200));

  EXPECT_THAT(again, Succeeded());
  EXPECT_EQ(std::get<Registered>(again.answer).service, service) << "the job goes on: no attempt";
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), Succeeded());
}

TEST(Conformance, Row026_ResettingTwiceIsRefused) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Reset(0);

  EXPECT_THAT(h.Reply(h.Reset(0)), HasError(StatusCode::kFailedPrecondition));
  EXPECT_THAT(h.Reply(h.Reset(7)), HasError(StatusCode::kInvalidArgument, Reason::kUnknownMember));
}

TEST(Conformance, Row027_HeartbeatsAfterAResetAreTakenWithinTheGraceOnly) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.KeepAlive({1});
  h.Reset(0);

  h.Advance(absl::Seconds(99));
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), Succeeded());
  h.Advance(absl::Seconds(2));
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), HasError(StatusCode::kInvalidArgument));
}

TEST(Conformance, Row028_HeartbeatsAfterLeavingAreTakenWithinTheGraceOnly) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::ZeroDuration()});
  h.RegisterAll();
  h.KeepAlive({1});
  ASSERT_THAT(h.Reply(h.Leave(0)), Succeeded());

  h.Advance(absl::Seconds(99));
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), Succeeded());
  h.Advance(absl::Seconds(2));
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), HasError(StatusCode::kInvalidArgument));
}

TEST(Conformance, Row028_TheSameAfterTheShutdownBarrier) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Leave(0);
  ASSERT_THAT(h.Reply(h.Leave(1)), Succeeded());

  h.Advance(absl::Seconds(99));
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), Succeeded());
  h.Advance(absl::Seconds(2));
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), HasError(StatusCode::kInvalidArgument));
}

TEST(Conformance, Row028_LeavingTwiceAndLeavingAsAStrangerAreRefused) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::ZeroDuration()});
  h.RegisterAll();
  h.Leave(0);

  EXPECT_THAT(h.Reply(h.Leave(0)), HasError(StatusCode::kFailedPrecondition));
  EXPECT_THAT(h.Reply(h.Leave(9)), HasError(StatusCode::kInvalidArgument, Reason::kUnknownMember));
}

}  // namespace
}  // namespace lockstep::coord

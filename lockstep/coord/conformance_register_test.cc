// Rows 37-44: the barrier at which all members of a job register.
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
using lockstep::testing::TextStartsWith;
using lockstep::testing::Who;
using ::testing::AllOf;
using ::testing::Not;

TEST(Conformance, Row037_HeartbeatsBeforeTheRegistrationPassesAreRefused) {
  CoordinatorHarness h({.size = 2});
  h.Register(0, 100);
  EXPECT_THAT(h.Reply(h.Heartbeat(Who(0).As(100))), HasError(StatusCode::kInvalidArgument));

  const CallId second_life = h.Register(0, 200);
  EXPECT_THAT(h.Reply(h.Heartbeat(Who(0).As(100))), HasError(StatusCode::kInvalidArgument));
  const CallId other = h.Register(1, 101);

  EXPECT_THAT(h.Reply(second_life), Succeeded());
  EXPECT_THAT(h.Reply(other), Succeeded());
}

TEST(Conformance, Row038_ARestartBeforeAllRegisteredReplacesTheOldCall) {
  CoordinatorHarness h({.size = 2});
  const CallId first_life = h.Register(0, 100);
  const CallId second_life = h.Register(0, 200);
  EXPECT_TRUE(h.Pending(second_life));

  const CallId other = h.Register(1, 101);

  EXPECT_THAT(h.Reply(first_life), HasError(StatusCode::kAlreadyExists));
  EXPECT_THAT(h.Reply(second_life), Succeeded());
  EXPECT_THAT(h.Reply(other), Succeeded());
  EXPECT_THAT(h.Reply(h.Register(0, 200)), Succeeded());
}

TEST(Conformance, Row038_ARetryBeforeAllRegisteredTakesThePlaceOfTheFirstTry) {
  CoordinatorHarness h({.size = 2});
  const CallId first = h.Register(0, 100);
  const CallId retry = h.Register(0, 100);

  h.Register(1, 101);

  EXPECT_FALSE(h.Pending(first));
  EXPECT_THAT(h.Reply(retry), Succeeded());
}

TEST(Conformance, Row039_ARestartAfterAllRegisteredFailsTheJob) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Poll(1);

  EXPECT_THAT(h.Reply(h.Register(0, 200)),
              HasError(StatusCode::kAborted, Reason::kMemberRestarted));

  EXPECT_THAT(h.Reply(h.Arrive(1, "b")), HasError(StatusCode::kInternal));
  EXPECT_EQ(h.View().state, AttemptState::kFailed);
}

TEST(Conformance, Row040_ThoseWhoRegisteredLearnWhoDidNot) {
  CoordinatorHarness h({.size = 3, .register_timeout = absl::Minutes(5)});
  const CallId call0 = h.Register(0, 100);
  h.Advance(absl::Minutes(1));
  const CallId call2 = h.Register(2, 102);

  h.Advance(absl::Minutes(4) - absl::Nanoseconds(1));
  EXPECT_TRUE(h.Pending(call0));
  h.Advance(absl::Nanoseconds(1));

  for (CallId call : {call0, call2}) {
    EXPECT_THAT(h.Reply(call), HasError(StatusCode::kDeadlineExceeded, "2/3", "task/1"));
    EXPECT_THAT(h.Reply(call), TextStartsWith("Barrier timed out"));
  }
  EXPECT_EQ(h.View().state, AttemptState::kFailed);
}

TEST(Conformance, Row041_RegistrationIsAnsweredWhenAllHaveAsked) {
  CoordinatorHarness h({.size = 3});
  const CallId call0 = h.Register(0, 100);
  const CallId call1 = h.Register(1, 101);
  EXPECT_TRUE(h.Pending(call0));
  EXPECT_TRUE(h.Pending(call1));
  EXPECT_EQ(h.Condition(0), MemberCondition::kRegistering);
  EXPECT_EQ(h.Condition(2), MemberCondition::kMissing);

  const CallId call2 = h.Register(2, 102);

  for (CallId call : {call0, call1, call2}) {
    ASSERT_THAT(h.Reply(call), Succeeded());
    EXPECT_EQ(std::get<Registered>(h.Reply(call).answer).service, h.service());
  }
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST(Conformance, Row042_LateMembersAreWaitedForAndTheEarlyOnesAreNotLostMeanwhile) {
  CoordinatorHarness h({.size = 3});
  const CallId call0 = h.Register(0, 100);
  h.Advance(absl::Minutes(10));
  const CallId call1 = h.Register(1, 101);
  h.Advance(absl::Minutes(10));
  const CallId call2 = h.Register(2, 102);

  for (CallId call : {call0, call1, call2}) EXPECT_THAT(h.Reply(call), Succeeded());
  h.Advance(absl::Seconds(99));
  EXPECT_THAT(h.Reply(h.Heartbeat(0)), Succeeded());
}

TEST(Conformance, Row043_ACallerWithADeadlineLearnsInTimeWhoIsMissing) {
  CoordinatorHarness h({.size = 3});
  const CallId call0 = h.Register(0, 100, absl::Seconds(305));
  const CallId call1 = h.Register(1, 101, absl::Seconds(305));

  h.Advance(absl::Seconds(304) - absl::Nanoseconds(1));
  EXPECT_TRUE(h.Pending(call0));
  h.Advance(absl::Nanoseconds(1));

  EXPECT_THAT(h.Reply(call0), HasError(StatusCode::kDeadlineExceeded, "task/2"));
  EXPECT_THAT(h.Reply(call0), TextStartsWith("Barrier timed out"));
  EXPECT_THAT(h.Reply(call1), HasError(StatusCode::kDeadlineExceeded, "task/2"));
}

TEST(Conformance, Row043_AShortDeadlineIsAnsweredATenthEarlier) {
  CoordinatorHarness h({.size = 2});
  const CallId call = h.Register(0, 100, absl::Seconds(5));

  h.Advance(absl::Milliseconds(4499));
  EXPECT_TRUE(h.Pending(call));
  h.Advance(absl::Milliseconds(1));

  EXPECT_THAT(h.Reply(call), HasError(StatusCode::kDeadlineExceeded, "task/1"));
}

TEST(Conformance, Row043_ACallerThatGaveUpIsNoLongerCounted) {
  CoordinatorHarness h({.size = 2});
  h.Register(0, 100, absl::Seconds(5));
  h.Advance(absl::Seconds(6));
  EXPECT_EQ(h.Condition(0), MemberCondition::kMissing);

  const CallId call1 = h.Register(1, 101);
  EXPECT_TRUE(h.Pending(call1));
  const CallId call0 = h.Register(0, 200);

  EXPECT_THAT(h.Reply(call0), Succeeded());
  EXPECT_THAT(h.Reply(call1), Succeeded());
}

TEST(Conformance, Row044_ARestartDuringRegistrationDoesNotHurtTheOthers) {
  CoordinatorHarness h({.size = 3});
  const CallId call0 = h.Register(0, 100);
  const CallId stale = h.Register(1, 101);
  const CallId fresh = h.Register(1, 201);
  const CallId call2 = h.Register(2, 102);

  EXPECT_THAT(h.Reply(stale), HasError(StatusCode::kAlreadyExists));
  for (CallId call : {call0, fresh, call2}) EXPECT_THAT(h.Reply(call), Succeeded());
  EXPECT_THAT(h.Reply(h.Heartbeat(Who(1).As(201))), Succeeded());
}

TEST(Conformance, Row045_ARestartAfterRegistrationIsAbortedAndTheOthersAreTold) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  const CallId poll1 = h.Poll(1);
  const CallId poll2 = h.Poll(2);

  EXPECT_THAT(h.Reply(h.Register(0, 200)), HasError(StatusCode::kAborted));

  EXPECT_THAT(h.Reply(poll1), AllOf(HasError(StatusCode::kAborted), IsAbout(0)));
  EXPECT_THAT(h.Reply(poll2), AllOf(HasError(StatusCode::kAborted), IsAbout(0)));
}

TEST(Registration, ACallerThatHangsUpIsWithdrawn) {
  CoordinatorHarness h({.size = 2});
  const CallId gone = h.Register(0, 100);
  h.Hangup(gone);
  EXPECT_EQ(h.Condition(0), MemberCondition::kMissing);

  const CallId other = h.Register(1, 101);

  EXPECT_TRUE(h.Pending(other));
  EXPECT_THAT(h.Reply(h.Register(0, 200)), Succeeded());
  EXPECT_THAT(h.Reply(other), Succeeded());
}

TEST(Registration, TheTimeOutStartsAnewWhenNobodyIsLeft) {
  CoordinatorHarness h({.size = 2, .register_timeout = absl::Seconds(60)});
  h.Hangup(h.Register(0, 100));
  h.Advance(absl::Seconds(50));

  const CallId call = h.Register(0, 200);
  h.Advance(absl::Seconds(59));
  EXPECT_TRUE(h.Pending(call));
  h.Advance(absl::Seconds(1));

  EXPECT_THAT(h.Reply(call), HasError(StatusCode::kDeadlineExceeded));
}

TEST(Registration, ItAlsoDoesWhenTheLastGaveUpByItsOwnDeadline) {
  CoordinatorHarness h({.size = 2, .register_timeout = absl::Seconds(60)});
  h.Register(0, 100, absl::Seconds(5));
  h.Advance(absl::Seconds(50));

  const CallId call = h.Register(0, 200);
  h.Advance(absl::Seconds(59));
  EXPECT_TRUE(h.Pending(call));
  h.Advance(absl::Seconds(1));

  EXPECT_THAT(h.Reply(call), HasError(StatusCode::kDeadlineExceeded));
}

TEST(Registration, AStopAnswersThoseWhoWait) {
  CoordinatorHarness h({.size = 2});
  const CallId call = h.Register(0, 100);

  h.Stop();

  EXPECT_FALSE(h.Pending(call));
  EXPECT_THAT(h.Reply(call), Not(Succeeded()));
  EXPECT_THAT(h.Reply(h.Register(1, 101)),
              HasError(StatusCode::kInternal, Reason::kServiceStopped));
}

}  // namespace
}  // namespace lockstep::coord

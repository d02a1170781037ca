// Rows 98-104 and 113: barriers with a member that is lost, fails, leaves or hangs up.
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::FailedBarrier;
using lockstep::testing::HasError;
using lockstep::testing::PassedBarrier;
using lockstep::testing::Succeeded;
using ::testing::ElementsAre;

// A job of three members that poll, so that the error of one does not set all to error.
class ConformanceBarrierFailures : public ::testing::Test {
 protected:
  ConformanceBarrierFailures() : h({.size = 3}) {
    h.RegisterAll();
    h.PollAll();
  }

  CoordinatorHarness h;
};

TEST_F(ConformanceBarrierFailures, Row098_AMemberInErrorFailsItAtOnce) {
  h.Report(2, StatusCode::kInternal, "broken");

  const CallId call0 = h.Arrive(0, "b");

  EXPECT_THAT(h.Reply(call0), HasError(StatusCode::kInternal, Reason::kBarrierMemberFailed,
                                       "task/2", "already in error"));
  EXPECT_THAT(h.Reply(call0), FailedBarrier("b", 0));
}

TEST_F(ConformanceBarrierFailures, Row098_ABarrierOfTheOthersPasses) {
  h.Report(2, StatusCode::kInternal, "broken");

  const CallId call0 = h.Arrive(0, "b", {.members = {0, 1}});
  const CallId call1 = h.Arrive(1, "b", {.members = {0, 1}});

  EXPECT_THAT(h.Reply(call0), PassedBarrier(0));
  EXPECT_THAT(h.Reply(call1), PassedBarrier(0));
}

TEST_F(ConformanceBarrierFailures, Row099_AMemberThatFailsMeanwhileFailsItForAll) {
  const CallId call0 = h.Arrive(0, "b");
  const CallId call1 = h.Arrive(1, "b");
  const CallId apart = h.Arrive(0, "apart", {.members = {0, 1}});

  h.Report(2, StatusCode::kInternal, "broken");

  for (CallId call : {call0, call1}) {
    EXPECT_THAT(h.Reply(call),
                HasError(StatusCode::kInternal, Reason::kBarrierMemberFailed, "task/2"));
    EXPECT_THAT(h.Reply(call), FailedBarrier("b", 0));
  }
  EXPECT_TRUE(h.Pending(apart)) << "it does not list the failed one";
}

TEST_F(ConformanceBarrierFailures, Row099_EvenWhenTheFailedOneHadArrived) {
  const CallId call0 = h.Arrive(0, "b");
  const CallId call2 = h.Arrive(2, "b");

  h.Report(2, StatusCode::kInternal, "broken");

  EXPECT_THAT(h.Reply(call0), HasError(StatusCode::kInternal));
  EXPECT_THAT(h.Reply(call2), HasError(StatusCode::kInternal));
}

TEST_F(ConformanceBarrierFailures, Row101_AResetMeanwhileFailsItForAll) {
  const CallId call0 = h.Arrive(0, "b");
  const CallId call1 = h.Arrive(1, "b");

  h.Reset(1);

  for (CallId call : {call0, call1}) {
    EXPECT_THAT(h.Reply(call),
                HasError(StatusCode::kInternal, Reason::kBarrierMemberLeft, "task/1"));
  }
}

TEST(ConformanceBarrierLeave, Row101_AShutdownMeanwhileFailsItForAll) {
  CoordinatorHarness h({.size = 3, .shutdown_timeout = absl::ZeroDuration()});
  h.RegisterAll();
  const CallId call0 = h.Arrive(0, "b");

  ASSERT_THAT(h.Reply(h.Leave(2)), Succeeded());

  EXPECT_THAT(h.Reply(call0),
              HasError(StatusCode::kInternal, Reason::kBarrierMemberLeft, "task/2"));
}

TEST(ConformanceBarrierStale, Row102_AfterAMemberFellSilentABarrierOfAllFails) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.KeepAlive({0});

  h.Advance(absl::Seconds(101));

  EXPECT_THAT(h.Reply(h.Arrive(0, "b")), HasError(StatusCode::kInternal));
}

TEST(ConformanceBarrierStale, Row103_AndOneThatListsItInEitherOrder) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.KeepAlive({0});

  h.Advance(absl::Seconds(101));

  EXPECT_THAT(h.Reply(h.Arrive(0, "b", {.members = {0, 1}})), HasError(StatusCode::kInternal));
  EXPECT_THAT(h.Reply(h.Arrive(0, "c", {.members = {1, 0}})), HasError(StatusCode::kInternal));
}

TEST_F(ConformanceBarrierFailures, Row104_AlsoAfterThePollsWereAnswered) {
  h.KeepAlive({0, 2});
  h.Advance(absl::Seconds(10));
  h.Heartbeat(1);  // so often is it to be expected

  h.Advance(absl::Seconds(101));

  EXPECT_THAT(h.Reply(h.Heartbeat(0)), Succeeded()) << "it is not in error itself";
  EXPECT_THAT(h.Reply(h.Arrive(0, "b")),
              HasError(StatusCode::kInternal, Reason::kBarrierMemberFailed, "task/1"));
}

TEST(ConformanceBarrierMany, Row113_AHundredMissingAreNotAllNamed) {
  CoordinatorHarness h({.size = 101});
  h.RegisterAll();

  const CallId call = h.Arrive(0, "b", {.timeout = absl::Seconds(1)});
  h.Advance(absl::Seconds(1));

  EXPECT_THAT(h.Reply(call), HasError(StatusCode::kDeadlineExceeded, "1/101", "task/1", "task/2",
                                      "task/3", "+97 more"));
  EXPECT_LE(h.Reply(call).error->message.size(), kErrorTextBytesMax);
}

TEST_F(ConformanceBarrierFailures, Row113_AHundredLateCallersGetTheError) {
  const CallId call = h.Arrive(0, "b", {.timeout = absl::Seconds(1)});
  h.Advance(absl::Seconds(1));

  for (int i = 0; i < 100; ++i) {
    const Reply& late = h.Reply(h.Arrive(1 + i % 2, "b"));
    EXPECT_THAT(late, HasError(StatusCode::kDeadlineExceeded));
    EXPECT_EQ(late.error, h.Reply(call).error) << "one error for all, not a copy for each";
  }
}

TEST_F(ConformanceBarrierFailures, AnArrivalIsWithdrawnWhenItsCallerHangsUp) {
  const CallId gone = h.Arrive(0, "b");
  const CallId call1 = h.Arrive(1, "b");
  h.Hangup(gone);

  const CallId call2 = h.Arrive(2, "b");
  EXPECT_TRUE(h.Pending(call1)) << "task/0 is not there any more";
  EXPECT_TRUE(h.Pending(call2));
  const CallId call0 = h.Arrive(0, "b");

  for (CallId call : {call0, call1, call2}) EXPECT_THAT(h.Reply(call), PassedBarrier(0));
}

TEST_F(ConformanceBarrierFailures, AnInstanceThatAllHaveLeftIsForgotten) {
  h.Hangup(h.Arrive(0, "b", {.timeout = absl::Seconds(5), .members = {0, 1}}));
  h.Advance(absl::Seconds(4));

  const CallId call = h.Arrive(1, "b", {.timeout = absl::Seconds(5)});

  ASSERT_EQ(h.View().barriers.size(), 1u);
  EXPECT_THAT(h.View().barriers[0].awaited, ElementsAre(MemberIndex(0), MemberIndex(2)));
  EXPECT_EQ(h.View().barriers[0].deadline, h.now() + absl::Seconds(5));
  EXPECT_TRUE(h.Pending(call));
}

TEST_F(ConformanceBarrierFailures, SoIsALaterInstanceAndTheOneBeforeItStands) {
  for (int member : {0, 1, 2}) h.Arrive(member, "b");
  h.Hangup(h.Arrive(0, "b", {.counter = 1}));
  EXPECT_TRUE(h.View().barriers.empty());

  EXPECT_THAT(h.Reply(h.Arrive(1, "b", {.counter = 0})), PassedBarrier(0));
  const CallId call0 = h.Arrive(0, "b", {.counter = 1});
  EXPECT_TRUE(h.Pending(call0)) << "not the answer of the one before";
  h.Arrive(1, "b", {.counter = 1});
  EXPECT_THAT(h.Reply(h.Arrive(2, "b", {.counter = 1})), PassedBarrier(1));
}

TEST_F(ConformanceBarrierFailures, AStopAbortsOpenBarriers) {
  const CallId call = h.Arrive(0, "b");

  h.Stop();

  EXPECT_THAT(h.Reply(call), HasError(StatusCode::kAborted, Reason::kServiceStopped));
  EXPECT_THAT(h.Reply(h.Arrive(1, "b")), HasError(StatusCode::kInternal, Reason::kServiceStopped));
  EXPECT_THAT(h.Reply(h.Cancel(1, "b")), HasError(StatusCode::kInternal, Reason::kServiceStopped));
}

TEST_F(ConformanceBarrierFailures, TheViewTellsWhoWaitsForWhom) {
  h.Advance(absl::Seconds(7));
  const Time opened = h.now();
  h.Arrive(2, "b", {.timeout = absl::Seconds(30)});
  h.Arrive(0, "b", {.timeout = absl::Seconds(99)});

  const CoordinatorView view = h.View();

  ASSERT_EQ(view.barriers.size(), 1u);
  EXPECT_EQ(view.barriers[0].barrier, (BarrierRef{"b", 0}));
  EXPECT_EQ(view.barriers[0].opened, opened);
  EXPECT_EQ(view.barriers[0].deadline, opened + absl::Seconds(30));
  EXPECT_THAT(view.barriers[0].waiting, ElementsAre(MemberIndex(0), MemberIndex(2)));
  EXPECT_THAT(view.barriers[0].awaited, ElementsAre(MemberIndex(1)));
}

}  // namespace
}  // namespace lockstep::coord

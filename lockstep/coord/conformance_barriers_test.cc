// Rows 83-97, 100, 105, 108-112 and 118-120: barriers whose members are all well.
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
using lockstep::testing::TextStartsWith;
using ::testing::AllOf;

// A job of three members, all registered.
class ConformanceBarriers : public ::testing::Test {
 protected:
  ConformanceBarriers() : h({.size = 3}) { h.RegisterAll(); }

  // All three arrive and pass.
  void Pass(const std::string& id, int64_t counter = 0) {
    const CallId call0 = h.Arrive(0, id, {.counter = counter});
    const CallId call1 = h.Arrive(1, id, {.counter = counter});
    const CallId call2 = h.Arrive(2, id, {.counter = counter});
    for (CallId call : {call0, call1, call2}) {
      ASSERT_THAT(h.Reply(call), PassedBarrier(counter));
    }
  }

  CoordinatorHarness h;
};

TEST_F(ConformanceBarriers, Row083_NobodyPassesBeforeTheLastArrives) {
  const CallId call0 = h.Arrive(0, "b");
  const CallId call1 = h.Arrive(1, "b");
  EXPECT_TRUE(h.Pending(call0));
  EXPECT_TRUE(h.Pending(call1));

  const CallId call2 = h.Arrive(2, "b");

  for (CallId call : {call0, call1, call2}) EXPECT_THAT(h.Reply(call), PassedBarrier(0));
}

TEST_F(ConformanceBarriers, Row084_ASubsetNeedsOnlyTheSubset) {
  const CallId call0 = h.Arrive(0, "b", {.members = {0, 2}});
  EXPECT_TRUE(h.Pending(call0));

  const CallId call2 = h.Arrive(2, "b", {.members = {2, 0}});

  EXPECT_THAT(h.Reply(call0), PassedBarrier(0));
  EXPECT_THAT(h.Reply(call2), PassedBarrier(0));
}

TEST_F(ConformanceBarriers, Row085_DifferentSetsFailTheBarrierForAll) {
  const CallId call0 = h.Arrive(0, "b", {.members = {0, 1}});
  const CallId call1 = h.Arrive(1, "b", {.members = {1, 2}});

  for (CallId call : {call0, call1}) {
    EXPECT_THAT(h.Reply(call),
                HasError(StatusCode::kInvalidArgument, Reason::kBarrierConflictingMembers,
                         "Conflicting tasks specified"));
    EXPECT_THAT(h.Reply(call), FailedBarrier("b", 0));
  }
}

TEST_F(ConformanceBarriers, Row085_AListAgainstTheWholeJobConflictsEitherWay) {
  const CallId list0 = h.Arrive(0, "a", {.members = {0, 1}});
  const CallId all1 = h.Arrive(1, "a");
  const CallId all0 = h.Arrive(0, "b");
  const CallId list1 = h.Arrive(1, "b", {.members = {0, 1}});
  const CallId same0 = h.Arrive(0, "c");
  const CallId same1 = h.Arrive(1, "c", {.members = {0, 1, 2}});

  for (CallId call : {list0, all1, all0, list1}) {
    EXPECT_THAT(h.Reply(call), HasError(StatusCode::kInvalidArgument));
  }
  EXPECT_TRUE(h.Pending(same0)) << "naming everybody is the whole job";
  EXPECT_TRUE(h.Pending(same1));
}

TEST_F(ConformanceBarriers, Row086_AStrangerAtASubsetBarrierFailsItForAll) {
  const CallId call0 = h.Arrive(0, "b", {.members = {0, 1}});

  const CallId call2 = h.Arrive(2, "b", {.members = {0, 1}});

  for (CallId call : {call0, call2}) {
    EXPECT_THAT(h.Reply(call),
                HasError(StatusCode::kInvalidArgument, Reason::kBarrierNotParticipant, "task/2"));
  }
  EXPECT_THAT(h.Reply(h.Arrive(1, "b", {.members = {0, 1}})),
              HasError(StatusCode::kInvalidArgument, Reason::kBarrierNotParticipant));
}

TEST_F(ConformanceBarriers, AStrangerWhoComesFirstDoesNotSayWhoseTheBarrierIs) {
  EXPECT_THAT(h.Reply(h.Arrive(2, "b", {.members = {0, 1}})),
              HasError(StatusCode::kInvalidArgument, Reason::kBarrierNotParticipant, "task/2",
                       "which is of task/0#1, task/1#1"));
  for (int member : {0, 1, 2}) {
    EXPECT_THAT(h.Reply(h.Arrive(member, "b")),
                HasError(StatusCode::kInvalidArgument, Reason::kBarrierNotParticipant))
        << "what one was told holds for all of this use";
  }

  std::vector<CallId> calls;
  for (int member : {0, 1, 2}) calls.push_back(h.Arrive(member, "b", {.counter = 1}));
  for (CallId call : calls) EXPECT_THAT(h.Reply(call), PassedBarrier(1));
}

TEST_F(ConformanceBarriers, Row087_AStrangerAfterItPassedIsRefusedAlone) {
  const CallId call0 = h.Arrive(0, "b", {.members = {0, 1}});
  const CallId call1 = h.Arrive(1, "b", {.members = {0, 1}});

  EXPECT_THAT(h.Reply(h.Arrive(2, "b", {.members = {0, 1}})),
              HasError(StatusCode::kInvalidArgument, Reason::kBarrierNotParticipant));

  EXPECT_THAT(h.Reply(call0), PassedBarrier(0));
  EXPECT_THAT(h.Reply(call1), PassedBarrier(0));
}

TEST_F(ConformanceBarriers, Row088_AListWithSomebodyOutsideTheJobIsRefusedAtOnce) {
  EXPECT_THAT(h.Reply(h.Arrive(0, "b", {.members = {0, 1, 77}})),
              HasError(StatusCode::kInvalidArgument, Reason::kBarrierUnknownMember, "77"));
  EXPECT_THAT(h.Reply(h.Arrive(0, "c", {.members = {0, -1}})),
              HasError(StatusCode::kInvalidArgument, Reason::kBarrierUnknownMember));
}

TEST_F(ConformanceBarriers, Row089_ATimeOutTellsAllWhoIsMissing) {
  const CallId call1 = h.Arrive(1, "b", {.timeout = absl::Seconds(5)});
  h.Advance(absl::Seconds(2));
  const CallId call0 = h.Arrive(0, "b", {.timeout = absl::Seconds(50)});

  h.Advance(absl::Seconds(3) - absl::Nanoseconds(1));
  EXPECT_TRUE(h.Pending(call0));
  h.Advance(absl::Nanoseconds(1));

  for (CallId call : {call0, call1}) {
    EXPECT_THAT(h.Reply(call),
                HasError(StatusCode::kDeadlineExceeded, Reason::kBarrierTimedOut, "2/3", "task/2"));
    EXPECT_THAT(h.Reply(call), TextStartsWith("Barrier timed out"));
    EXPECT_THAT(h.Reply(call), lockstep::testing::HasText("task/1")) << "the first to arrive";
    EXPECT_THAT(h.Reply(call), FailedBarrier("b", 0));
  }
  EXPECT_EQ(h.Reply(call0).error->message, h.Reply(call1).error->message);
}

TEST_F(ConformanceBarriers, Row090_ACallAfterAFailureWithTheSameCounterGetsTheSameError) {
  const CallId call0 = h.Arrive(0, "b", {.timeout = absl::Seconds(1)});
  h.Advance(absl::Seconds(1));

  const CallId late = h.Arrive(1, "b");

  EXPECT_THAT(h.Reply(late), HasError(StatusCode::kDeadlineExceeded));
  EXPECT_EQ(h.Reply(late).error->message, h.Reply(call0).error->message);
  EXPECT_THAT(h.Reply(late), FailedBarrier("b", 0));
}

TEST_F(ConformanceBarriers, Row091_AnIdIsUsedTwiceInARow) {
  Pass("b", 0);
  Pass("b", 1);
}

TEST_F(ConformanceBarriers, Row092_AnotherCounterFailsAnOpenInstanceForAll) {
  const CallId call0 = h.Arrive(0, "b", {.counter = 0});

  const CallId call1 = h.Arrive(1, "b", {.counter = 1});

  for (CallId call :
       {call0, call1, h.Arrive(0, "b", {.counter = 0}), h.Arrive(2, "b", {.counter = 0})}) {
    EXPECT_THAT(h.Reply(call), HasError(StatusCode::kInternal, Reason::kBarrierCounterMismatch));
    EXPECT_THAT(h.Reply(call), FailedBarrier("b", 0));
  }
}

TEST_F(ConformanceBarriers, Row093_CountersAfterTheFirstInstancePassed) {
  Pass("b", 0);

  EXPECT_THAT(h.Reply(h.Arrive(0, "b", {.counter = 0})), PassedBarrier(0));
  EXPECT_THAT(h.Reply(h.Arrive(0, "b", {.counter = -1})),
              HasError(StatusCode::kInternal, Reason::kBarrierCounterMismatch));
  EXPECT_THAT(h.Reply(h.Arrive(0, "b", {.counter = 2})),
              HasError(StatusCode::kInternal, Reason::kBarrierCounterMismatch));
}

TEST_F(ConformanceBarriers, Row094_CancellingAnOpenBarrier) {
  const CallId call0 = h.Arrive(0, "b");
  const CallId call1 = h.Arrive(1, "b");

  EXPECT_THAT(h.Reply(h.Cancel(0, "b")), Succeeded());

  for (CallId call : {call0, call1}) {
    EXPECT_THAT(h.Reply(call), HasError(StatusCode::kCancelled, Reason::kBarrierCancelled));
    EXPECT_THAT(h.Reply(call), FailedBarrier("b", 0));
  }
  EXPECT_THAT(h.Reply(h.Arrive(2, "b")), HasError(StatusCode::kCancelled));
}

TEST_F(ConformanceBarriers, Row095_CancellingAfterItPassedIsRefused) {
  Pass("b");

  EXPECT_THAT(h.Reply(h.Cancel(0, "b")),
              HasError(StatusCode::kFailedPrecondition, Reason::kBarrierAlreadyPassed,
                       "already been passed"));
}

TEST_F(ConformanceBarriers, Row096_CancellingNeedsTheRightCounterIfAny) {
  Pass("b", 0);
  const CallId call0 = h.Arrive(0, "b", {.counter = 1});

  EXPECT_THAT(h.Reply(h.Cancel(1, "b", 0)),
              HasError(StatusCode::kFailedPrecondition, "likely due to a restart"));
  EXPECT_THAT(h.Reply(h.Cancel(1, "b", 2)),
              HasError(StatusCode::kFailedPrecondition, "likely due to a restart"));
  EXPECT_TRUE(h.Pending(call0));
  EXPECT_THAT(h.Reply(h.Cancel(1, "b", 1)), Succeeded());
  EXPECT_THAT(h.Reply(call0), HasError(StatusCode::kCancelled));
}

TEST_F(ConformanceBarriers, Row097_RepeatingAPassedInstanceSucceedsAtOnce) {
  Pass("b");

  EXPECT_THAT(h.Reply(h.Arrive(1, "b")), PassedBarrier(0));
  EXPECT_THAT(h.Reply(h.Arrive(1, "b")), PassedBarrier(0));
}

TEST_F(ConformanceBarriers, Row100_ASecondCallOfOneMemberReplacesItsFirst) {
  const CallId older = h.Arrive(0, "b");
  const CallId newer = h.Arrive(0, "b");
  EXPECT_THAT(h.Reply(older), HasError(StatusCode::kCancelled, Reason::kSuperseded));

  const CallId call1 = h.Arrive(1, "b");
  EXPECT_TRUE(h.Pending(newer)) << "one member arrives once, however often it calls";
  const CallId call2 = h.Arrive(2, "b");

  for (CallId call : {newer, call1, call2}) EXPECT_THAT(h.Reply(call), PassedBarrier(0));
}

TEST_F(ConformanceBarriers, Row105_TwoIdsOneAfterTheOther) {
  Pass("first");
  Pass("second");
}

TEST_F(ConformanceBarriers, Row106_ALateCallerAfterATimeOutGetsTheOthersError) {
  const CallId call0 = h.Arrive(0, "b", {.timeout = absl::Seconds(1)});
  const CallId call1 = h.Arrive(1, "b", {.timeout = absl::Seconds(1)});
  h.Advance(absl::Seconds(30));

  const CallId late = h.Arrive(2, "b", {.timeout = absl::Seconds(1)});

  EXPECT_EQ(h.Reply(late).error->message, h.Reply(call0).error->message);
  EXPECT_EQ(h.Reply(late).error->code, h.Reply(call1).error->code);
}

TEST_F(ConformanceBarriers, Row107_MembersAtDifferentIdsTimeOut) {
  const CallId call0 = h.Arrive(0, "a", {.timeout = absl::Seconds(1)});
  const CallId call1 = h.Arrive(1, "b", {.timeout = absl::Seconds(2)});

  h.Advance(absl::Seconds(2));

  EXPECT_THAT(h.Reply(call0), HasError(StatusCode::kDeadlineExceeded, "1/3"));
  EXPECT_THAT(h.Reply(call1), HasError(StatusCode::kDeadlineExceeded, "1/3"));
  EXPECT_THAT(h.Reply(call0), FailedBarrier("a", 0));
  EXPECT_THAT(h.Reply(call1), FailedBarrier("b", 0));
}

TEST_F(ConformanceBarriers, Row108_TwoIdsAlternateManyTimes) {
  for (int64_t counter = 0; counter < 50; ++counter) {
    Pass("even", counter);
    Pass("odd", counter);
  }
}

TEST_F(ConformanceBarriers, Row109_ARestartedMemberAtAUsedIdIsToldSo) {
  Pass("b", 0);
  h.Reset(0);
  ASSERT_THAT(h.Reply(h.Register(0, 200)), Succeeded());
  const CallId call1 = h.Arrive(1, "b", {.counter = 1});

  const CallId restarted = h.Arrive(0, "b", {.counter = 0});

  EXPECT_THAT(h.Reply(restarted),
              HasError(StatusCode::kInternal, Reason::kBarrierCounterMismatch, "restarted"));
  EXPECT_THAT(h.Reply(call1), HasError(StatusCode::kInternal));
  EXPECT_THAT(h.Reply(restarted), FailedBarrier("b", 1));
}

TEST_F(ConformanceBarriers, Row110_AfterATimeOutAndAStragglerTheNextRoundPasses) {
  h.Arrive(0, "b", {.timeout = absl::Seconds(1)});
  h.Arrive(1, "b", {.timeout = absl::Seconds(1)});
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(h.Reply(h.Arrive(2, "b")), HasError(StatusCode::kDeadlineExceeded));

  Pass("b", 1);
}

TEST_F(ConformanceBarriers, Row111_ASlowMemberIsToldThatTheOthersWentOn) {
  Pass("b", 0);
  h.Arrive(0, "b", {.counter = 1, .timeout = absl::Seconds(1)});
  h.Advance(absl::Seconds(1));
  const CallId quick = h.Arrive(0, "b", {.counter = 2});

  const CallId slow = h.Arrive(1, "b", {.counter = 1});

  EXPECT_THAT(h.Reply(slow),
              HasError(StatusCode::kInternal, Reason::kBarrierCounterMismatch, "too quick / slow"));
  EXPECT_THAT(h.Reply(slow), FailedBarrier("b", 2));
  EXPECT_THAT(h.Reply(quick), HasError(StatusCode::kInternal));
}

TEST_F(ConformanceBarriers, Row112_CancellingAnIdNeverUsedDoesNothing) {
  EXPECT_THAT(h.Reply(h.Cancel(0, "never")), Succeeded());

  Pass("never");
}

TEST_F(ConformanceBarriers, Row114_CallersThatHangUpAreForgottenWithTheirWaits) {
  const CallId get = h.Get(0, "k");
  const CallId arrival = h.Arrive(0, "b");

  h.Hangup(get);
  h.Hangup(arrival);

  EXPECT_EQ(h.View().waits, 0u);
  EXPECT_TRUE(h.View().barriers.empty());
  EXPECT_TRUE(h.View().key_waits.empty());
}

TEST_F(ConformanceBarriers, Row118_OnlyTheListedCallAndPass) {
  const CallId call1 = h.Arrive(1, "b", {.members = {1, 2}});
  const CallId call2 = h.Arrive(2, "b", {.members = {1, 2}});

  EXPECT_THAT(h.Reply(call1), PassedBarrier(0));
  EXPECT_THAT(h.Reply(call2), PassedBarrier(0));
}

TEST_F(ConformanceBarriers, Row119_AStrangerFirstFailsItForEveryoneLateOnesIncluded) {
  const CallId stranger = h.Arrive(2, "b", {.members = {0, 1}});
  const CallId call0 = h.Arrive(0, "b", {.members = {0, 1}});
  const CallId call1 = h.Arrive(1, "b", {.members = {0, 1}});

  for (CallId call : {stranger, call0, call1}) {
    EXPECT_THAT(h.Reply(call), HasError(StatusCode::kInvalidArgument));
    EXPECT_THAT(h.Reply(call), TextStartsWith("A non-participating task"));
  }
}

TEST_F(ConformanceBarriers, Row120_OneNeverCalls) {
  const CallId call0 = h.Arrive(0, "b", {.timeout = absl::Seconds(3)});
  const CallId call1 = h.Arrive(1, "b", {.timeout = absl::Seconds(3)});

  h.Advance(absl::Seconds(3));

  EXPECT_THAT(h.Reply(call0), AllOf(HasError(StatusCode::kDeadlineExceeded, "task/2"),
                                    TextStartsWith("Barrier timed out")));
  EXPECT_THAT(h.Reply(call1), AllOf(HasError(StatusCode::kDeadlineExceeded, "task/2"),
                                    TextStartsWith("Barrier timed out")));
}

}  // namespace
}  // namespace lockstep::coord

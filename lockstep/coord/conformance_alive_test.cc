// Rows 121-127: who of a set is alive, agreed by those who are.
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::HasError;
using lockstep::testing::Native;
using lockstep::testing::Succeeded;
using ::testing::ElementsAre;
using ::testing::Pair;

TEST(ConformanceAlive, Row121_AllCallAndAllAreNamedWithTheirIncarnations) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  const CallId call0 = h.Alive(0, {0, 1, 2});
  const CallId call2 = h.Alive(2, {2, 0, 1});
  EXPECT_TRUE(h.Pending(call0));

  const CallId call1 = h.Alive(1, {1, 1, 0, 2});

  for (CallId call : {call0, call1, call2}) {
    EXPECT_THAT(h.AliveIn(call), ElementsAre(Pair(0, 100), Pair(1, 101), Pair(2, 102)));
  }
}

TEST(ConformanceAlive, Row122_AMemberThatFailedBeforeIsLeftOut) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  h.PollAll();
  h.Report(2, StatusCode::kInternal, "broken");

  const CallId call0 = h.Alive(0, {0, 1, 2});
  const CallId call1 = h.Alive(1, {0, 1, 2});

  EXPECT_THAT(h.AliveIn(call0), ElementsAre(Pair(0, 100), Pair(1, 101)));
  EXPECT_THAT(h.AliveIn(call1), ElementsAre(Pair(0, 100), Pair(1, 101)));
}

TEST(ConformanceAlive, Row123_AFailureMeanwhileReleasesTheRest) {
  CoordinatorHarness h({.size = 3, .recoverable = true});
  h.RegisterAll();
  const CallId call0 = h.Alive(0, {0, 1, 2});
  const CallId call1 = h.Alive(1, {0, 1, 2});
  EXPECT_TRUE(h.Pending(call0));

  h.Report(2, StatusCode::kInternal, "broken");

  EXPECT_THAT(h.AliveIn(call0), ElementsAre(Pair(0, 100), Pair(1, 101)));
  EXPECT_THAT(h.AliveIn(call1), ElementsAre(Pair(0, 100), Pair(1, 101)));
}

TEST(ConformanceAlive, Row123_SoDoesALossAndALeave) {
  CoordinatorHarness h({.size = 4, .recoverable = true});
  h.RegisterAll();
  const CallId poll3 = h.Poll(3);
  const CallId call0 = h.Alive(0, {0, 1, 2, 3});
  const CallId call1 = h.Alive(1, {0, 1, 2, 3});

  h.Leave(2);
  EXPECT_TRUE(h.Pending(call0));
  h.Hangup(poll3);
  EXPECT_TRUE(h.Pending(call0)) << "a suspect is still alive";
  h.Advance(absl::Milliseconds(200));

  EXPECT_THAT(h.AliveIn(call0), ElementsAre(Pair(0, 100), Pair(1, 101)));
  EXPECT_THAT(h.AliveIn(call1), ElementsAre(Pair(0, 100), Pair(1, 101)));
}

TEST(ConformanceAlive, Row124_OverlappingSetsAreIndependent) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  const CallId all0 = h.Alive(0, {0, 1, 2});
  const CallId pair0 = h.Alive(0, {0, 1});
  const CallId pair1 = h.Alive(1, {0, 1});

  EXPECT_THAT(h.AliveIn(pair0), ElementsAre(Pair(0, 100), Pair(1, 101)));
  EXPECT_THAT(h.AliveIn(pair1), ElementsAre(Pair(0, 100), Pair(1, 101)));
  EXPECT_TRUE(h.Pending(all0));
  const CallId all1 = h.Alive(1, {0, 1, 2});
  const CallId all2 = h.Alive(2, {0, 1, 2});
  for (CallId call : {all0, all1, all2}) EXPECT_EQ(h.AliveIn(call).size(), 3u);
}

TEST(ConformanceAlive, Row125_ACallerOutsideItsOwnListIsRefused) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();

  EXPECT_THAT(h.Reply(h.Alive(0, {1, 2})),
              HasError(StatusCode::kInvalidArgument, Reason::kCallerNotListed));
  EXPECT_THAT(h.Reply(h.Alive(0, {})),
              HasError(StatusCode::kInvalidArgument, Reason::kCallerNotListed));
}

TEST(ConformanceAlive, Row126_AllCallsOfOneMemberAreAnswered) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId first = h.Alive(0, {0, 1});
  const CallId second = h.Alive(0, {0, 1});
  EXPECT_TRUE(h.Pending(first));
  EXPECT_TRUE(h.Pending(second));

  const CallId other = h.Alive(1, {0, 1});

  for (CallId call : {first, second, other}) EXPECT_EQ(h.AliveIn(call).size(), 2u);
}

TEST(ConformanceAlive, Row127_AskedAgainAndAgainAHealthyJobIsAllAlive) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();

  for (int round = 0; round < 3; ++round) {
    const CallId call0 = h.Alive(0, {0, 1});
    EXPECT_TRUE(h.Pending(call0)) << "a new round, not the answer of the last";
    h.Alive(1, {0, 1});
    EXPECT_THAT(h.AliveIn(call0), ElementsAre(Pair(0, 100), Pair(1, 101)));
  }
}

TEST(Alive, TheCallOfAFormerLifeDoesNotSpeakForTheNewOne) {
  CoordinatorHarness h({.size = 3, .recoverable = true});
  h.RegisterAll();
  const CallId stale = h.Alive(0, {0, 1, 2});
  const CallId call1 = h.Alive(1, {0, 1, 2});

  h.Register(0, 200);
  EXPECT_THAT(h.Reply(stale), HasError(StatusCode::kCancelled, Reason::kSuperseded));
  const CallId call2 = h.Alive(2, {0, 1, 2});
  EXPECT_TRUE(h.Pending(call2)) << "task/0#2 is alive and has not come";
  const CallId call0 = h.Alive(0, {0, 1, 2});

  for (CallId call : {call0, call1, call2}) {
    EXPECT_THAT(h.AliveIn(call), ElementsAre(Pair(0, 200), Pair(1, 101), Pair(2, 102)));
  }
}

TEST(Alive, AMemberThatComesBackWhileOthersWaitIsAwaited) {
  CoordinatorHarness h({.size = 3, .recoverable = true});
  h.RegisterAll();
  h.Reset(0);
  const CallId call1 = h.Alive(1, {0, 1, 2});
  h.Register(0, 200);

  const CallId call2 = h.Alive(2, {0, 1, 2});

  EXPECT_TRUE(h.Pending(call1));
  EXPECT_TRUE(h.Pending(call2));
  h.Alive(0, {0, 1, 2});
  EXPECT_EQ(h.AliveIn(call1).size(), 3u);
}

TEST(Alive, StrangersCountAsNotAlive) {
  CoordinatorHarness h({.size = 1});
  h.RegisterAll();

  EXPECT_THAT(h.AliveIn(h.Alive(0, {0, 5, -3})), ElementsAre(Pair(0, 100)));
}

TEST(Alive, ACallerThatHangsUpIsWithdrawn) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Hangup(h.Alive(0, {0, 1}));
  EXPECT_EQ(h.View().waits, 0u);

  const CallId call1 = h.Alive(1, {0, 1});

  EXPECT_TRUE(h.Pending(call1)) << "task/0 is alive and not there any more";
  EXPECT_THAT(h.Reply(h.Alive(0, {0, 1})), Succeeded());
  EXPECT_THAT(h.Reply(call1), Succeeded());
}

TEST(Alive, OfNativeClientsAnEmptyListIsOfAll) {
  CoordinatorHarness h({.size = 3, .recoverable = true});
  h.JoinAll(500);
  const CallId first = h.Ask(Native(1), GetAliveMembers{});
  const CallId listed = h.Ask(
      Native(2), GetAliveMembers{.members = {MemberIndex(2), MemberIndex(0), MemberIndex(1)}});
  EXPECT_TRUE(h.Pending(first));

  const CallId third = h.Ask(Native(3), GetAliveMembers{});

  for (CallId call : {first, listed, third}) {
    EXPECT_THAT(h.AliveIn(call), ElementsAre(Pair(0, 501), Pair(1, 502), Pair(2, 503)));
  }
}

TEST(Alive, OfStockClientsAnEmptyListIsOneWithoutTheCaller) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();

  EXPECT_THAT(h.Reply(h.Alive(0, {})),
              HasError(StatusCode::kInvalidArgument, Reason::kCallerNotListed, "a list of 0"));
}

}  // namespace
}  // namespace lockstep::coord

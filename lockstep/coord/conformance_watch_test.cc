// Rows 128-133: watching the state of all members; requests of another service incarnation.
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::IsFromAnotherAttempt;
using lockstep::testing::Succeeded;
using lockstep::testing::Who;

TEST(ConformanceWatch, Row128_WithoutAVersionTheStateComesAtOnce) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();

  const MembersWatched watched = h.Watched(h.Watch(0));

  ASSERT_EQ(watched.members->size(), 2u);
  for (int i = 0; i < 2; ++i) {
    const MemberStatus& status = (*watched.members)[static_cast<size_t>(i)];
    EXPECT_EQ(status.member, MemberIndex(i));
    EXPECT_EQ(status.incarnation, Incarnation(static_cast<uint64_t>(100 + i)));
    EXPECT_EQ(status.state, MemberState::kConnected);
    EXPECT_EQ(status.error, nullptr);
  }
  EXPECT_THAT(h.Reply(h.Watch(0, -1)), Succeeded());
}

TEST(ConformanceWatch, Row129_AfterAResetOneIsDisconnected) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Reset(0);

  const MembersWatched watched = h.Watched(h.Watch(1));

  EXPECT_EQ((*watched.members)[0].state, MemberState::kDisconnected);
  EXPECT_EQ((*watched.members)[1].state, MemberState::kConnected);
}

TEST(ConformanceWatch, Row130_AfterItRegisteredAgainItsNewIncarnationShows) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Reset(0);
  h.Register(0, 200);

  const MembersWatched watched = h.Watched(h.Watch(1));

  EXPECT_EQ((*watched.members)[0].state, MemberState::kConnected);
  EXPECT_EQ((*watched.members)[0].incarnation, Incarnation(200));
}

TEST(ConformanceWatch, Row131_WithTheCurrentVersionItParksUntilAChange) {
  CoordinatorHarness h({.size = 2, .recoverable = true});
  h.RegisterAll();
  h.Advance(absl::Seconds(1));
  const int64_t version = h.Watched(h.Watch(0)).version;
  const CallId watch = h.Watch(0, version);
  h.Heartbeat(1);
  EXPECT_TRUE(h.Pending(watch));

  h.Report(1, StatusCode::kDataLoss, "broken");

  const MembersWatched watched = h.Watched(watch);
  EXPECT_NE(watched.version, version);
  EXPECT_EQ((*watched.members)[1].state, MemberState::kError);
  ASSERT_NE((*watched.members)[1].error, nullptr);
  EXPECT_EQ((*watched.members)[1].error->code, StatusCode::kDataLoss);
}

TEST(ConformanceWatch, Row132_TwoChangesSinceAreOneAnswerWithTheLatestState) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  const int64_t version = h.Watched(h.Watch(2)).version;
  h.Reset(0);
  h.Reset(1);

  const CallId watch = h.Watch(2, version);

  const MembersWatched watched = h.Watched(watch);
  EXPECT_EQ((*watched.members)[0].state, MemberState::kDisconnected);
  EXPECT_EQ((*watched.members)[1].state, MemberState::kDisconnected);
  EXPECT_TRUE(h.Pending(h.Watch(2, watched.version)));
}

TEST(ConformanceWatch, Row132_AStopAnswersWithAnEmptyList) {
  CoordinatorHarness h({.size = 1});
  h.RegisterAll();
  h.Advance(absl::Seconds(1));
  const CallId watch = h.Watch(0, h.Watched(h.Watch(0)).version);
  ASSERT_TRUE(h.Pending(watch));

  h.Stop();

  const MembersWatched watched = h.Watched(watch);
  EXPECT_TRUE(watched.members->empty());
  EXPECT_EQ(watched.version, -1);
}

TEST(ConformanceService, Row133_EveryRequestOfAnotherServiceIncarnationIsRefused) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Set(1, "k", "v");
  const CallId poll1 = h.Poll(1);

  for (uint64_t wrong : {uint64_t{0}, h.service().value() + 1}) {
    const Who who = h.Snapshot(0).In(ServiceIncarnation(wrong));
    for (CallId call :
         {h.Heartbeat(who), h.Poll(who), h.Report(who, StatusCode::kInternal, "x"), h.Leave(who),
          h.Reset(who), h.Watch(who), h.Set(who, "k", "w", true), h.Get(who, "k"),
          h.TryGet(who, "k"), h.Increment(who, "n", 1), h.List(who, "k"), h.Delete(who, "k"),
          h.Arrive(who, "b"), h.Cancel(who, "b"), h.Alive(who, {0, 1})}) {
      EXPECT_THAT(h.Reply(call), IsFromAnotherAttempt(h.service()));
      EXPECT_TRUE(h.Reply(call).error->from_service);
    }
  }

  EXPECT_TRUE(h.Pending(poll1)) << "and nothing has changed";
  EXPECT_EQ(h.Value(h.TryGet(1, "k")), "v");
  EXPECT_EQ(h.View().keys, 1u);
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
  EXPECT_TRUE(h.View().barriers.empty());
}

TEST(ConformanceService, Row133_EvenAnUnknownMemberIsToldTheServiceFirst) {
  CoordinatorHarness h({.size = 1});
  h.RegisterAll();

  EXPECT_THAT(h.Reply(h.Heartbeat(Who(9).In(ServiceIncarnation(5)))),
              IsFromAnotherAttempt(h.service()));
}

TEST(Watch, ACallerThatHangsUpIsForgotten) {
  CoordinatorHarness h({.size = 1});
  h.RegisterAll();
  const CallId watch = h.Watch(0, h.Watched(h.Watch(0)).version);

  h.Hangup(watch);

  EXPECT_EQ(h.View().waits, 0u);
}

TEST(Watch, ASuspectIsShownAsConnected) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.ProcessStarted(1, 50);
  h.ProcessStopped(1, 50);
  EXPECT_EQ(h.Condition(1), MemberCondition::kSuspect);

  EXPECT_EQ((*h.Watched(h.Watch(0)).members)[1].state, MemberState::kConnected);
}

}  // namespace
}  // namespace lockstep::coord

// Calls of stock clients that the agent of their host passes on: asked again after a broken link or
// a restart of the server, each has its effect once, and nobody is taken for dead.
#include <string>

#include "gmock/gmock.h"
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
using lockstep::testing::Who;
using ::testing::HasSubstr;

// Two members on one host, whose agent has session 7.
class ThroughAnAgent : public ::testing::Test {
 protected:
  ThroughAnAgent() : h({.size = 2}) {
    h.Open(kAgent);
    h.Register(0, 500);
    h.Register(1, 501);
  }
  static Who By(int member, uint64_t number) { return Who(member).By(kAgent.session, number); }

  static inline const Native kAgent = Native(7);
  CoordinatorHarness h;
};

TEST_F(ThroughAnAgent, AnIncrementThatIsAskedAgainHappensOnce) {
  EXPECT_EQ(h.Value(h.Increment(By(0, 1), "count", 5)), "5");
  h.BreakLink(kAgent, /*silent=*/true);
  h.Open(kAgent, /*resume=*/true);

  EXPECT_EQ(h.Value(h.Increment(By(0, 1), "count", 5)), "5");
  EXPECT_EQ(h.Value(h.Increment(By(0, 2), "count", 5)), "10");
}

TEST_F(ThroughAnAgent, AKeyIsWrittenOnceThoughASecondWriteWouldBeRefused) {
  EXPECT_THAT(h.Reply(h.Set(By(0, 1), "a", "1")), Succeeded());
  EXPECT_THAT(h.Reply(h.Set(By(1, 2), "a", "2")),
              HasError(StatusCode::kAlreadyExists, Reason::kKeyExists));
  h.Restart(/*from_snapshot=*/false);
  h.Open(kAgent, /*resume=*/true);

  EXPECT_THAT(h.Reply(h.Set(By(0, 1), "a", "1")), Succeeded());
  EXPECT_THAT(h.Reply(h.Set(By(1, 2), "a", "2")),
              HasError(StatusCode::kAlreadyExists, Reason::kKeyExists));
  EXPECT_EQ(h.Value(h.Get(By(1, 3), "a")), "1");
}

// Its session may ask native requests as well.
TEST_F(ThroughAnAgent, ANumberOfANativeRequestIsRefused) {
  h.Ask(kAgent.Again(5), SetKey{.key = "a", .value = "1"});
  h.Ask(kAgent.Again(6), DeleteKey{.key = "a"});
  for (const uint64_t number : {5, 6}) {
    EXPECT_THAT(h.Reply(h.Set(By(0, number), "b", "2")),
                HasError(StatusCode::kInvalidArgument, Reason::kInvalidArgument));
  }
  EXPECT_THAT(h.Reply(h.Set(By(0, 7), "b", "2")), Succeeded());
}

TEST_F(ThroughAnAgent, AnswersAreKeptUntilTheAgentHasThem) {
  h.Increment(By(0, 1), "count", 5);
  h.AnsweredThrough(kAgent, 1);
  EXPECT_THAT(h.Reply(h.Increment(By(0, 1), "count", 5)),
              HasError(StatusCode::kInvalidArgument, Reason::kInvalidArgument));
  EXPECT_THAT(h.Reply(h.Heartbeat(By(0, 2))), Succeeded());
}

TEST_F(ThroughAnAgent, AnAgentWithoutASessionIsRefused) {
  EXPECT_THAT(h.Reply(h.Increment(Who(0).By(Native(8).session, 1), "count", 5)),
              HasError(StatusCode::kNotFound, Reason::kUnknownSession));
}

TEST_F(ThroughAnAgent, AMemberIsHeldToItsAttempt) {
  EXPECT_THAT(h.Reply(h.Get(By(0, 1).In(ServiceIncarnation(12)), "a")),
              HasError(StatusCode::kInternal, Reason::kWrongServiceIncarnation));
}

TEST_F(ThroughAnAgent, ABarrierWhoseAnswerWasLostIsToldAgainThoughTheNextIsOpen) {
  const CallId lost = h.Arrive(By(0, 1), "b", {.counter = 0});
  const CallId other = h.Arrive(Who(1), "b", {.counter = 0});
  EXPECT_THAT(h.Reply(other), Succeeded());
  EXPECT_THAT(h.Reply(lost), Succeeded());
  const CallId next = h.Arrive(Who(1), "b", {.counter = 1});

  EXPECT_THAT(h.Reply(h.Arrive(By(0, 1), "b", {.counter = 0})), Succeeded());
  EXPECT_TRUE(h.Pending(next));
  EXPECT_THAT(h.Reply(h.Arrive(By(0, 2), "b", {.counter = 1})), Succeeded());
  EXPECT_THAT(h.Reply(next), Succeeded());
}

TEST_F(ThroughAnAgent, ASilentLinkOfTheAgentIsNoProofOfADeath) {
  const CallId poll = h.Poll(By(0, 1));
  h.Hangup(poll, CallLeft::Agent::kAway);
  h.Advance(absl::Seconds(60));
  EXPECT_EQ(h.Condition(0), MemberCondition::kSuspect);

  EXPECT_TRUE(h.Pending(h.Poll(By(0, 1))));
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST_F(ThroughAnAgent, AProcessThatDiesIsMissedAtOnce) {
  const CallId poll = h.Poll(By(0, 1));
  const CallId other = h.Poll(By(1, 2));
  h.Hangup(poll);
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(h.Reply(other), HasError(StatusCode::kUnavailable, Reason::kConnectionLost));
}

TEST_F(ThroughAnAgent, AnAgentThatEndsIsNamedAlsoWhereItsProcessesEndByIt) {
  for (int member = 0; member < 2; ++member) h.ProcessStarted(member, 51 + member);
  const CallId poll = h.Poll(By(0, 1));
  const CallId other = h.Poll(By(1, 2));
  h.Hangup(poll, CallLeft::Agent::kEnded);
  EXPECT_THAT(h.Member(0).why, HasSubstr("the agent of its host disconnected"));
  h.Advance(absl::Milliseconds(50));
  h.ProcessEnded(0, 51, 0, /*signal=*/6);
  EXPECT_THAT(h.Reply(other), HasError(StatusCode::kUnavailable, Reason::kAgentEnded, "task/0",
                                       "the agent of its host disconnected 50ms ago"));
}

TEST_F(ThroughAnAgent, AnAgentThatEndedIsMissedWithoutNewsOfItsProcesses) {
  const CallId poll = h.Poll(By(0, 1));
  const CallId other = h.Poll(By(1, 2));
  h.Hangup(poll, CallLeft::Agent::kEnded);
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(h.Reply(other), HasError(StatusCode::kUnavailable, Reason::kAgentEnded, "task/0"));
}

TEST_F(ThroughAnAgent, AnAgentThatEndsBeforeAProcessHasPolledIsMissed) {
  h.Heartbeat(By(0, 1));
  const CallId other = h.Poll(Who(1));
  h.BreakLink(kAgent, /*silent=*/false);
  EXPECT_EQ(h.Condition(0), MemberCondition::kSuspect);
  h.Advance(absl::Milliseconds(290));
  EXPECT_TRUE(h.Pending(other));
  h.Advance(absl::Milliseconds(20));
  EXPECT_THAT(h.Reply(other), HasError(StatusCode::kUnavailable, Reason::kAgentEnded, "task/0"));
}

TEST_F(ThroughAnAgent, AProcessThatHasNotPolledIsWellOnceItsAgentIsBack) {
  h.Heartbeat(By(0, 1));
  h.BreakLink(kAgent, /*silent=*/false);
  h.Advance(absl::Milliseconds(200));
  h.Open(kAgent, /*resume=*/true);
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
  h.Advance(absl::Seconds(5));
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST_F(ThroughAnAgent, AnAgentThatClosesItsSessionIsMissedByThoseThatHaveNotPolled) {
  h.Heartbeat(By(0, 1));
  const CallId other = h.Poll(Who(1));
  h.Ask(kAgent, CloseSession{});
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(h.Reply(other), HasError(StatusCode::kUnavailable, Reason::kAgentEnded, "task/0"));
}

TEST_F(ThroughAnAgent, AProcessWhoseAdmissionWasNotHeardIsWellWhenItAsksAgain) {
  CoordinatorHarness one({.size = 1});
  one.Open(kAgent);
  const auto ask = [&one] {
    return one.Register(0, 500, absl::InfiniteDuration(), "", false, kAgent.session);
  };
  const CallId lost = ask();
  EXPECT_THAT(one.Reply(lost), Succeeded());
  one.Hangup(lost, CallLeft::Agent::kEnded);
  one.BreakLink(kAgent);
  EXPECT_EQ(one.Condition(0), MemberCondition::kSuspect);
  one.Open(kAgent, /*resume=*/true);
  EXPECT_THAT(one.Reply(ask()), Succeeded());
  EXPECT_EQ(one.Condition(0), MemberCondition::kConnected);
  // And its agent is missed from now on.
  one.BreakLink(kAgent);
  EXPECT_EQ(one.Condition(0), MemberCondition::kSuspect);
}

TEST_F(ThroughAnAgent, ARestartedProcessOfARecoverableJobComesToTheOpenBarrier) {
  CoordinatorHarness recoverable({.size = 2, .recoverable = true});
  recoverable.Open(kAgent);
  recoverable.RegisterAll(500);
  const CallId first = recoverable.Arrive(By(0, 1), "b", {.counter = 0});
  recoverable.Arrive(Who(1), "b", {.counter = 0});
  EXPECT_THAT(recoverable.Reply(first), Succeeded());
  const CallId waits = recoverable.Arrive(Who(1), "b", {.counter = 1});
  // In its new life it counts from 0 again.
  recoverable.Register(0, 900);
  const CallId again = recoverable.Arrive(By(0, 2), "b", {.counter = 0});
  EXPECT_THAT(recoverable.Reply(again), Succeeded());
  EXPECT_FALSE(recoverable.Pending(waits)) << "both are in the second instance";
}

// As the server tells it, of members 0 and 1; a third is elsewhere.
class OnALostHost : public ::testing::Test {
 protected:
  OnALostHost() : h({.size = 3}) {
    h.Open(kAgent);
    for (int member = 0; member < 3; ++member) h.Register(member, 500 + member);
  }
  static Who By(int member, uint64_t number) { return Who(member).By(kAgent.session, number); }
  void Lose() {
    h.Handle(HostLost{.agent = kAgent.session, .host = "h2", .unheard = absl::Milliseconds(3100)});
  }

  static inline const Native kAgent = Native(7);
  CoordinatorHarness h;
};

TEST_F(OnALostHost, AllItsMembersFailByOneErrorThatNamesIt) {
  h.Poll(By(0, 1));
  h.Poll(By(1, 2));
  const CallId other = h.Poll(2);
  Lose();
  EXPECT_THAT(h.Reply(other),
              HasError(StatusCode::kUnavailable, Reason::kHostLost, "task/0",
                       "host h2 has not been heard for 3.1s (2 processes)", "also lost: task/1"));
  EXPECT_EQ(h.Condition(0), MemberCondition::kLost);
  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
}

TEST_F(OnALostHost, ItsSessionIsOver) {
  h.Poll(By(0, 1));
  Lose();
  EXPECT_THAT(h.Reply(h.Get(By(0, 2), "a")),
              HasError(StatusCode::kNotFound, Reason::kUnknownSession));
  EXPECT_THAT(h.Reply(h.Open(kAgent, /*resume=*/true)),
              HasError(StatusCode::kNotFound, Reason::kUnknownSession));
}

TEST_F(OnALostHost, WhoCallsByItselfIsNotConcerned) {
  const CallId poll = h.Poll(0);
  Lose();
  EXPECT_TRUE(h.Pending(poll));
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST_F(OnALostHost, AMemberIsKnownByItsFirstCallAfterARestart) {
  h.Poll(By(0, 1));
  h.Poll(By(1, 2));
  h.Restart(/*from_snapshot=*/true);
  h.Open(kAgent, /*resume=*/true);
  h.Poll(By(0, 1));
  h.Poll(By(1, 2));
  const CallId other = h.Poll(2);
  Lose();
  EXPECT_THAT(h.Reply(other),
              HasError(StatusCode::kUnavailable, Reason::kHostLost, "task/0", "(2 processes)"));
}

TEST_F(OnALostHost, AHostWithoutMembersHarmsNobody) {
  const CallId other = h.Poll(2);
  Lose();
  Lose();
  EXPECT_TRUE(h.Pending(other));
}

TEST_F(ThroughAnAgent, ABarrierHalfFilledOutlivesTheServer) {
  const CallId poll = h.Poll(By(0, 1));
  const CallId arrived = h.Arrive(By(0, 2), "b");
  ASSERT_TRUE(h.Pending(arrived) && h.Pending(poll));
  h.Restart(/*from_snapshot=*/true);
  h.Open(kAgent, /*resume=*/true);

  h.Poll(By(0, 1));
  h.Poll(By(1, 4));
  const CallId again = h.Arrive(By(0, 2), "b");
  const CallId last = h.Arrive(By(1, 3), "b");
  EXPECT_THAT(h.Reply(again), Succeeded());
  EXPECT_THAT(h.Reply(last), Succeeded());
  h.Advance(absl::Seconds(40));  // longer than restart_grace
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST_F(ThroughAnAgent, ALongDeletionIsAnsweredOnceMore) {
  for (int i = 0; i < 2000; ++i) h.Set(0, "dir/" + std::to_string(i), "x");
  const CallId deletion = h.Delete(By(0, 1), "dir");
  h.Advance(absl::Seconds(1));
  EXPECT_THAT(h.Reply(deletion), Succeeded());
  h.Set(0, "dir/later", "x");
  EXPECT_THAT(h.Reply(h.Delete(By(0, 1), "dir")), Succeeded());
  EXPECT_EQ(h.Value(h.TryGet(0, "dir/later")), "x") << "the deletion went once";
}

}  // namespace
}  // namespace lockstep::coord

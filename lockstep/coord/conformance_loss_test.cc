// How a loss is seen before the heartbeat time-out tells: on the connection, and by the
// launcher; and which of several losses is called the cause.
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
using ::testing::AllOf;
using ::testing::HasSubstr;

// A job of three members, each with a process of its own (51, 52, 53), all of which poll.
class Loss : public ::testing::Test {
 protected:
  Loss() : h({.size = 3}) {
    for (int member = 0; member < 3; ++member) h.ProcessStarted(member, 51 + member);
    h.RegisterAll();
    polls = h.PollAll();
  }

  CoordinatorHarness h;
  std::vector<CallId> polls;
};

TEST_F(Loss, ABrokenConnectionMakesASuspectAtOnceAndALossAfterTheGrace) {
  h.Advance(absl::Seconds(5));
  const Time broke = h.now();
  h.Hangup(polls[1]);
  EXPECT_EQ(h.Condition(1), MemberCondition::kSuspect);
  EXPECT_EQ(h.Member(1).since, broke);
  EXPECT_FALSE(h.Member(1).why.empty());
  EXPECT_TRUE(h.Pending(polls[0]));

  h.Advance(absl::Milliseconds(200) - absl::Nanoseconds(1));
  EXPECT_EQ(h.Condition(1), MemberCondition::kSuspect);
  EXPECT_TRUE(h.Pending(polls[0]));
  h.Advance(absl::Nanoseconds(1));

  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
  EXPECT_EQ(h.Member(1).since, broke + absl::Milliseconds(200));
  EXPECT_THAT(h.Reply(polls[0]),
              HasError(StatusCode::kUnavailable, Reason::kConnectionLost, "task/1"));
  EXPECT_THAT(h.Reply(polls[2]), IsAbout(1));
}

TEST_F(Loss, PollingAgainWithinTheGraceSavesIt) {
  h.Hangup(polls[1]);
  h.Advance(absl::Milliseconds(199));

  const CallId again = h.Poll(1);
  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
  h.Advance(absl::Seconds(10));

  EXPECT_TRUE(h.Pending(again));
  EXPECT_TRUE(h.Pending(polls[0]));
  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
}

TEST_F(Loss, ASecondBreakCountsAnew) {
  h.Hangup(polls[1]);
  h.Advance(absl::Milliseconds(150));
  const CallId again = h.Poll(1);
  h.Hangup(again);

  h.Advance(absl::Milliseconds(199));
  EXPECT_EQ(h.Condition(1), MemberCondition::kSuspect);
  h.Advance(absl::Milliseconds(1));

  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
}

TEST(LossWhileLeaving, LeavingWithinTheGraceIsNoLoss) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::ZeroDuration()});
  h.RegisterAll();
  const std::vector<CallId> polls = h.PollAll();
  h.Hangup(polls[1]);

  ASSERT_THAT(h.Reply(h.Leave(1)), Succeeded());
  h.Advance(absl::Seconds(10));

  EXPECT_EQ(h.Condition(1), MemberCondition::kLeft);
  EXPECT_TRUE(h.Pending(polls[0]));
  EXPECT_TRUE(h.View().errors.empty());
}

TEST(LossWhileLeaving, HangingUpAfterLeavingIsNoLoss) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::ZeroDuration()});
  h.RegisterAll();
  const CallId poll0 = h.Poll(0);
  h.Leave(1);
  const CallId late = h.Poll(1);

  h.Hangup(late);
  h.Advance(absl::Seconds(10));

  EXPECT_EQ(h.Condition(1), MemberCondition::kLeft);
  EXPECT_TRUE(h.Pending(poll0));
}

TEST_F(Loss, OtherCallsThatHangUpAreNoLoss) {
  for (CallId call : {h.Get(1, "k"), h.Arrive(1, "b"), h.Alive(1, {0, 1})}) h.Hangup(call);

  h.Advance(absl::Seconds(10));

  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
  EXPECT_TRUE(h.Pending(polls[0]));
}

TEST_F(Loss, AnOlderPollThatWasReplacedIsNoLoss) {
  h.Poll(1);

  h.Hangup(polls[1]);
  h.Advance(absl::Seconds(10));

  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
}

TEST_F(Loss, AProcessThatEndedIsLostAtOnce) {
  h.ProcessEnded(1, 52, /*exit_code=*/0, /*signal=*/9);

  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
  EXPECT_THAT(h.Reply(polls[0]),
              HasError(StatusCode::kUnavailable, Reason::kProcessEnded, "task/1"));
  EXPECT_THAT(h.Reply(polls[0]), IsAbout(1));
  EXPECT_THAT(h.Member(1).why, HasSubstr("SIGKILL"));
}

TEST_F(Loss, ItsExitCodeIsTold) {
  h.ProcessEnded(1, 52, /*exit_code=*/42);

  EXPECT_THAT(h.Reply(polls[0]), HasError(StatusCode::kUnavailable, "task/1", "42"));
}

TEST_F(Loss, UseA07_AnExceptionIsKeptBeforeTheProcessEndsAndComesFirst) {
  h.ProcessEnding(1, 52, "ValueError: bad sample, train.py:24 in load");
  h.ProcessEnding(1, 52, "ValueError: bad sample, train.py:24 in load");  // sent again
  ASSERT_EQ(h.View().errors.size(), 1u);
  EXPECT_THAT(h.View().errors[0].message, HasSubstr("raised ValueError: bad sample"));
  EXPECT_FALSE(h.View().errors[0].consequence);
  EXPECT_EQ(h.log().back().about.kind, LogKind::kMemberFailed);
  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected) << "it may clean up";

  h.ProcessEnding(1, 51, "of a process before");
  h.ProcessEnding(2, 53);
  EXPECT_EQ(h.View().errors.size(), 1u);
}

TEST(LossOfProcesses, UseA07_AnExceptionAfterAnotherProcessFailedIsNotTheFirst) {
  CoordinatorHarness h({.size = 2});
  h.ProcessStarted(0, 50);
  h.ProcessStarted(1, 51);
  h.ProcessEnded(1, 51, /*exit_code=*/0, /*signal=*/6);
  h.ProcessEnding(0, 50, "RuntimeError: connection reset by peer");
  ASSERT_EQ(h.View().errors.size(), 1u);
  EXPECT_TRUE(h.View().errors[0].consequence);
}

TEST_F(Loss, TheEndOfAProcessTellsMoreThanTheBreakBefore) {
  h.Hangup(polls[1]);
  h.Advance(absl::Milliseconds(3));

  h.ProcessEnded(1, 52, /*exit_code=*/0, /*signal=*/11);

  EXPECT_THAT(h.Reply(polls[0]),
              HasError(StatusCode::kUnavailable, Reason::kProcessEnded, "task/1", "SIGSEGV"));
  EXPECT_EQ(h.View().errors.size(), 1u);
}

TEST_F(Loss, HowAProcessEndedIsToldAlsoAfterItsMemberWasLost) {
  h.Hangup(polls[1]);
  h.Advance(absl::Seconds(1));
  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);

  h.ProcessEnded(1, 52, /*exit_code=*/42);

  EXPECT_EQ(h.log().back().about.kind, LogKind::kProcessEnded);
  EXPECT_THAT(h.log().back().text, AllOf(HasSubstr("task/1"), HasSubstr("code 42")));
  EXPECT_EQ(h.View().errors.size(), 1u) << "it is no other error";
}

TEST_F(Loss, ThoseWhoWereToldAreShownAsFailedSinceTheyEndByIt) {
  h.ProcessEnded(1, 52, /*exit_code=*/1);

  EXPECT_EQ(h.Condition(0), MemberCondition::kFailed);
  EXPECT_THAT(h.Member(0).why, HasSubstr("told"));
  EXPECT_EQ(h.View().state, AttemptState::kFailed);
}

TEST_F(Loss, AnyRequestIsASignOfLife) {
  h.KeepAlive({0, 1, 2});
  h.Advance(absl::Seconds(10));  // a heartbeat each
  h.KeepAlive({0, 2});
  h.Advance(absl::Seconds(60));
  h.Set(1, "k", "v");
  h.Advance(absl::Seconds(60));
  h.Arrive(1, "b");
  h.Advance(absl::Seconds(60));
  h.Poll(1);
  h.Advance(absl::Seconds(99));
  EXPECT_NE(h.Condition(1), MemberCondition::kLost);

  h.Advance(absl::Seconds(1));

  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
}

TEST_F(Loss, TheEndOfAnotherProcessIsNoLoss) {
  h.ProcessEnded(1, 4711, /*exit_code=*/1);

  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
  EXPECT_TRUE(h.Pending(polls[0]));
}

// While the server was away a process died, its launcher started the job again, and the new process
// came before the launcher's reports.
TEST(LateReports, TheEndOfTheProcessBeforeIsNoLossOfTheNextLife) {
  CoordinatorHarness h({.size = 2});
  for (int member = 0; member < 2; ++member) h.ProcessStarted(member, 51 + member);
  h.RegisterAll(100);
  h.Restart(/*from_snapshot=*/false);
  h.Register(1, 201);  // fails the attempt; its client tries again
  h.RegisterAll(300);
  h.Advance(absl::Seconds(1));

  h.ProcessEnded(1, 52, 0, /*signal=*/9, /*ago=*/absl::Seconds(3));
  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
  EXPECT_EQ(h.log().back().text,
            "job 'job': the process (pid 52) of task/1 before this one: its process was killed "
            "by SIGKILL 3s ago");

  h.ProcessStarted(1, 62);
  h.ProcessEnded(1, 62, 0, /*signal=*/9, /*ago=*/absl::Milliseconds(1));
  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
}

// Of a life that came to an earlier server nobody knows when.
TEST(LateReports, TheEndOfAProcessThatOutlivedItsServerIsALoss) {
  CoordinatorHarness h({.size = 2});
  for (int member = 0; member < 2; ++member) h.ProcessStarted(member, 51 + member);
  h.RegisterAll(100);
  h.Restart(/*from_snapshot=*/true);

  h.ProcessEnded(1, 52, 0, /*signal=*/9, /*ago=*/absl::Seconds(3));
  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
}

// Somebody starts the job a second time while its members are in.
TEST_F(Loss, TheEndOfAProcessOfAnotherRunIsNoLoss) {
  h.ProcessStarted(1, 4711);
  h.ProcessEnded(1, 4711, /*exit_code=*/1);

  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
  EXPECT_TRUE(h.Pending(polls[0]));
  EXPECT_EQ(h.log().back().about.kind, LogKind::kProcessEnded);
  EXPECT_THAT(h.log().back().text,
              HasSubstr("task/1 (pid 4711 on host-a), which has not joined: its "
                        "process exited with code 1"));
}

TEST(LossWhileLeaving, AProcessThatEndsAfterLeavingIsNoLoss) {
  CoordinatorHarness h({.size = 2});
  h.ProcessStarted(0, 51);
  h.ProcessStarted(1, 52);
  h.RegisterAll();
  h.Leave(0);
  h.Leave(1);

  h.ProcessEnded(0, 51, 0);
  h.ProcessEnded(1, 52, 0);

  EXPECT_EQ(h.Condition(0), MemberCondition::kLeft);
  EXPECT_TRUE(h.View().errors.empty());
}

TEST_F(Loss, AStoppedProcessIsASuspectUntilItContinues) {
  h.Advance(absl::Seconds(1));
  h.ProcessStopped(1, 52);
  EXPECT_EQ(h.Condition(1), MemberCondition::kSuspect);
  EXPECT_EQ(h.Member(1).since, h.now());
  EXPECT_THAT(h.Member(1).why, HasSubstr("stopped"));

  h.Advance(absl::Seconds(30));
  EXPECT_EQ(h.Condition(1), MemberCondition::kSuspect);
  EXPECT_TRUE(h.Pending(polls[0]));
  h.ProcessContinued(1, 52);

  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
  h.Advance(absl::Seconds(10));
  EXPECT_TRUE(h.Pending(polls[0]));
}

TEST_F(Loss, AStoppedProcessIsLostByItsHeartbeatsOnly) {
  h.KeepAlive({0, 1, 2});
  h.Advance(absl::Seconds(10));  // a heartbeat each
  h.KeepAlive({0, 2});
  h.ProcessStopped(1, 52);

  h.Advance(absl::Seconds(100) - absl::Nanoseconds(1));
  EXPECT_EQ(h.Condition(1), MemberCondition::kSuspect);
  EXPECT_TRUE(h.Pending(polls[0]));
  h.Advance(absl::Nanoseconds(1));

  EXPECT_THAT(h.Reply(polls[0]),
              HasError(StatusCode::kUnavailable, Reason::kHeartbeatTimeout, "task/1"));
}

// Each client's own time-out sets the period of its heartbeats, and is not on the wire.
TEST_F(Loss, StockMembersWithLongTimeoutsLiveBesideAShortOne) {
  const std::vector<int> periods_s = {150, 600, 50};  // heartbeat_timeout of 300, 1200 and 100
  for (int second = 1; second <= 3600; ++second) {
    h.Advance(absl::Seconds(1));
    for (int i = 0; i < 3; ++i) {
      if (second % periods_s[i] == 0) h.Heartbeat(i);
    }
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(h.Condition(i), MemberCondition::kConnected) << i;
    EXPECT_TRUE(h.Pending(polls[i])) << i;
  }
  EXPECT_TRUE(h.View().errors.empty());
}

TEST_F(Loss, AStockMemberIsASuspectUntilItsOwnPeriodIsOverdue) {
  h.Advance(absl::Seconds(50));
  for (int i : {0, 2}) h.Heartbeat(i);
  h.KeepAlive({0, 2});
  h.Advance(absl::Seconds(20));
  EXPECT_EQ(h.Condition(1), MemberCondition::kSuspect) << "nobody knows its period yet";
  EXPECT_THAT(h.log().back().text,
              HasSubstr("nothing was heard of it for 1m; it is lost if nothing is heard of it for "
                        "another 24m"));
  EXPECT_THAT(h.Member(1).why,
              HasSubstr("for 1m10s; it is lost if nothing is heard of it for another 23m50s"));

  h.Advance(absl::Seconds(80));
  h.Heartbeat(1);
  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
  EXPECT_THAT(h.log().back().text, HasSubstr("heard of again"));
  h.Advance(absl::Seconds(225) - absl::Nanoseconds(1));
  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
  h.Advance(absl::Nanoseconds(1));
  EXPECT_THAT(h.log().back().text,
              HasSubstr("nothing was heard of it for 3m45s; it is lost if nothing is heard of it "
                        "for another 2m30s"));
  h.Advance(absl::Seconds(150) - absl::Nanoseconds(1));
  EXPECT_EQ(h.Condition(1), MemberCondition::kSuspect);
  EXPECT_TRUE(h.Pending(polls[0]));
  h.Advance(absl::Nanoseconds(1));
  EXPECT_THAT(h.Reply(polls[0]),
              HasError(StatusCode::kUnavailable, Reason::kHeartbeatTimeout, "task/1", "6m15s"));
}

TEST_F(Loss, WhoseConnectionBreaksIsLostByThatWhateverItsPeriod) {
  h.Advance(absl::Seconds(150));
  for (int i = 0; i < 3; ++i) h.Heartbeat(i);
  h.Hangup(polls[1]);
  h.Advance(absl::Milliseconds(200));
  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
}

TEST(LossWithoutAPoll, IsAfterHeartbeatTimeoutWhateverThePeriod) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Poll(0);
  h.Advance(absl::Seconds(99));
  h.Heartbeat(1);
  h.KeepAlive({0});
  h.Advance(absl::Seconds(100) - absl::Nanoseconds(1));
  EXPECT_EQ(h.Condition(1), MemberCondition::kSuspect);
  h.Advance(absl::Nanoseconds(1));
  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
}

TEST_F(Loss, TheViewKnowsHostProcessAndAddress) {
  const MemberView member = h.Member(1);

  EXPECT_EQ(member.name, "task/1#1");
  EXPECT_EQ(member.host, "host-a");
  EXPECT_EQ(member.pid, 52);
  EXPECT_EQ(member.peer, "10.0.0.1:4711");
}

TEST_F(Loss, TheEarlierBreakIsTheCauseWhenALaterLossIsConfirmedFirst) {
  h.Hangup(polls[1]);
  h.Advance(absl::Milliseconds(100));
  EXPECT_TRUE(h.Pending(polls[0]));

  h.ProcessEnded(2, 53, /*exit_code=*/1);

  EXPECT_THAT(h.Reply(polls[0]), AllOf(HasError(StatusCode::kUnavailable), IsAbout(1)));
  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
  EXPECT_EQ(h.Condition(2), MemberCondition::kLost);
  const std::vector<ErrorView> errors = h.View().errors;
  ASSERT_GE(errors.size(), 2u);
  EXPECT_THAT(errors[0].origin, HasSubstr("task/1"));
  EXPECT_FALSE(errors[0].consequence);
  EXPECT_THAT(errors[1].origin, HasSubstr("task/2"));
  EXPECT_TRUE(errors[1].consequence);
}

TEST_F(Loss, ABreakWithinTheGraceOfAnotherIsItsConsequence) {
  h.Hangup(polls[1]);
  h.Advance(absl::Milliseconds(50));
  h.Hangup(polls[2]);
  h.Advance(absl::Milliseconds(149));
  EXPECT_EQ(h.Condition(1), MemberCondition::kSuspect);
  EXPECT_EQ(h.Condition(2), MemberCondition::kSuspect);

  h.Advance(absl::Milliseconds(1));

  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
  EXPECT_EQ(h.Condition(2), MemberCondition::kLost);
  EXPECT_THAT(h.Reply(polls[0]), AllOf(IsAbout(1), HasText("task/1", "task/2")));
  ASSERT_EQ(h.View().errors.size(), 2u);
  EXPECT_THAT(h.View().errors[0].origin, HasSubstr("task/1"));
  EXPECT_FALSE(h.View().errors[0].consequence);
  EXPECT_TRUE(h.View().errors[1].consequence);
}

TEST_F(Loss, ABreakAfterTheCauseWasToldIsKeptAsAConsequence) {
  h.ProcessEnded(1, 52, /*exit_code=*/1);
  h.Poll(2);  // answered with the cause, and so is not parked
  h.ProcessEnded(2, 53, /*exit_code=*/134);

  ASSERT_EQ(h.View().errors.size(), 2u);
  EXPECT_TRUE(h.View().errors[1].consequence);
  EXPECT_THAT(h.Reply(h.Poll(0)), IsAbout(1)) << "the cause is the first for ever";
}

TEST(LossAtTheStart, AProcessThatEndsWhileItRegistersIsNotLetIn) {
  CoordinatorHarness h({.size = 2});
  h.ProcessStarted(0, 51);
  const CallId dead = h.Register(0, 100);

  h.ProcessEnded(0, 51, /*exit_code=*/0, /*signal=*/9);

  EXPECT_THAT(h.Reply(dead), HasError(StatusCode::kUnavailable, Reason::kProcessEnded));
  const CallId other = h.Register(1, 101);
  EXPECT_TRUE(h.Pending(other)) << "the dead do not complete a registration";
  h.Register(0, 102);
  EXPECT_THAT(h.Reply(other), Succeeded());
}

TEST(LossAtTheStart, AMemberThatNeverGotItsAnswerIsLostAfterTheGrace) {
  CoordinatorHarness h({.size = 2});
  const CallId dead = h.Register(0, 100);
  const CallId other = h.Register(1, 101);
  EXPECT_THAT(h.Reply(other), Succeeded());
  const CallId poll = h.Poll(1);

  h.Hangup(dead);  // it died when the answer was on its way
  EXPECT_EQ(h.Condition(0), MemberCondition::kSuspect);
  h.Advance(absl::Milliseconds(200));

  EXPECT_THAT(h.Reply(poll), HasError(StatusCode::kUnavailable, Reason::kConnectionLost));
  EXPECT_EQ(h.Condition(0), MemberCondition::kLost);
}

TEST(LossAtTheStart, AMemberThatPollsHasItsAnswer) {
  CoordinatorHarness h({.size = 2});
  const CallId registration = h.Register(0, 100);
  h.Register(1, 101);
  h.Poll(0);

  h.Hangup(registration);

  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST(LossAtTheStart, ItIsSaidSinceWhenSomebodyIsMissing) {
  CoordinatorHarness h({.size = 3});
  h.Advance(absl::Seconds(100));
  const Time first = h.now();
  h.Register(0, 100);
  h.Advance(absl::Seconds(5));
  const Time second = h.now();
  const CallId left = h.Register(1, 101);
  h.Advance(absl::Seconds(5));
  h.Hangup(left);

  const CoordinatorView view = h.View();

  EXPECT_EQ(view.members[0].since, first) << "registering since then";
  EXPECT_EQ(view.members[1].since, second + absl::Seconds(5)) << "away since then";
  EXPECT_EQ(view.members[2].since, first) << "missing as long as somebody waits for it";
}

}  // namespace
}  // namespace lockstep::coord

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/launch/exit_code.h"
#include "lockstep/launch/supervisor.h"
#include "lockstep/launch/supervisor_testing.h"

namespace lockstep::launch {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class RestartsTest : public SupervisorFixture {
 protected:
  RestartsTest() {
    options_.size = 2;
    options_.max_restarts = 2;
    options_.restart_backoff = absl::ZeroDuration();
  }
  void Start() {
    supervisor_.emplace(options_);
    Begin({.first = options_.first, .size = options_.size});
  }
  void Begin(AttemptBegins begins) {
    Do(begins);
    for (int32_t i = begins.first; i < begins.first + begins.size; ++i) {
      Do(ProcessStarted{M(i), ++pid_});
    }
  }
  Effects End(int32_t index, ExitStatus ending, std::vector<std::string> last_lines = {}) {
    Do(OutputEnded{M(index)});
    return Do(ProcessEnded{M(index), ending, std::move(last_lines)});
  }

  SupervisorOptions options_;
  int64_t pid_ = 99;
};

TEST_F(RestartsTest, AFailureStopsTheOthersAndStartsAllAgain) {
  Start();
  now_ = now_ + absl::Seconds(3);
  const Effects failed = End(1, {0, SIGABRT});
  EXPECT_THAT(failed.sentences,
              ElementsAre(HasSubstr("; the other process is stopped, and all are started again")));
  EXPECT_THAT(failed.signals, IsEmpty()) << "whose failure it was may show in a moment";
  const Effects stopped = Pass(options_.drain_delay);
  EXPECT_THAT(stopped.signals, ElementsAre(SignalGroup{M(0), SIGTERM}, SignalGroup{M(0), SIGCONT}));
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + options_.stop_grace);
  const Effects over = End(0, {0, SIGTERM});
  EXPECT_EQ(over.restart, 1);
  EXPECT_FALSE(over.exit_code.has_value());
  EXPECT_THAT(over.sentences,
              ElementsAre("attempt 1 failed after 3.2 s: task/1 (pid 101) was killed by SIGABRT "
                          "after 3.0 s; attempt 2 begins (restart 1 of 2)"));
  Begin({.size = 2});
  End(0, {0, 0});
  const Effects last = End(1, {0, 0});
  EXPECT_EQ(last.exit_code, 0);
  EXPECT_THAT(last.sentences,
              ElementsAre("attempt 1 failed after 3.2 s: task/1 (pid 101) was killed by SIGABRT "
                          "after 3.0 s",
                          HasSubstr("task/0 (pid 102)"), HasSubstr("task/1 (pid 103)"),
                          "all 2 succeeded in 3.2 s"));
}

TEST_F(RestartsTest, AfterASigkillNothingIsWaitedFor) {
  Start();
  End(1, {0, SIGKILL});
  EXPECT_EQ(supervisor_->NextDeadline(), now_);
  EXPECT_THAT(Do(DeadlineReached{}).signals,
              ElementsAre(SignalGroup{M(0), SIGTERM}, SignalGroup{M(0), SIGCONT}));
}

TEST_F(RestartsTest, HelpersOfAFailedAttemptHoldUpNobody) {
  options_.size = 1;
  Start();
  Do(ProcessEnded{M(0), {0, SIGKILL}});  // its loaders hold its output
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + options_.drain_delay);
  EXPECT_EQ(Pass(options_.drain_delay).restart, 1);
}

TEST_F(RestartsTest, WhoDoesNotStopIsKilled) {
  Start();
  End(1, {1, 0});
  Pass(options_.drain_delay);
  EXPECT_THAT(Pass(options_.stop_grace).signals, ElementsAre(SignalGroup{M(0), SIGKILL}));
  EXPECT_EQ(End(0, {0, SIGKILL}).restart, 1);
}

TEST_F(RestartsTest, WhenNoneAreLeftItFailsAsWithoutThem) {
  options_.size = 1;
  Start();
  EXPECT_EQ(End(0, {3, 0}).restart, 1);
  Begin({.size = 1});
  EXPECT_EQ(End(0, {4, 0}).restart, 2);
  Begin({.size = 1});
  const Effects last = End(0, {5, 0}, {"Traceback", "ValueError: no"});
  EXPECT_FALSE(last.restart.has_value());
  EXPECT_EQ(last.exit_code, 5);
  EXPECT_THAT(last.sentences,
              ElementsAre(HasSubstr("task/0 (pid 102) ended with exit code 5"),
                          HasSubstr("attempt 1 failed"), HasSubstr("attempt 2 failed"),
                          "task/0 (pid 102) ended with exit code 5 after 0.0 s <- the first to "
                          "fail; the last that it wrote:\n  | Traceback\n  | ValueError: no",
                          "failed after 0.0 s, exit code 5"));
}

TEST_F(RestartsTest, TheRootCauseStandsFirstInTheTableOfEnds) {
  options_.max_restarts = 0;
  options_.size = 3;
  Start();
  End(2, {7, 0}, {"boom"});
  End(0, {0, 0});
  const Effects last = End(1, {0, 0});
  ASSERT_EQ(last.sentences.size(), 4U);
  EXPECT_THAT(last.sentences[0], HasSubstr("task/2 (pid 102) ended with exit code 7"));
  EXPECT_THAT(last.sentences[0], HasSubstr("  | boom"));
  EXPECT_THAT(last.sentences[1], HasSubstr("task/0"));
}

TEST_F(RestartsTest, WhatAProcessSaysOfItsErrorStandsBehindItsEnding) {
  options_.size = 1;
  options_.max_restarts = 1;
  Start();
  Do(OutputEnded{M(0)});
  const Effects first =
      Do(ProcessEnded{.member = M(0), .ending = {1, 0}, .error = "ValueError: no gradient"});
  EXPECT_THAT(
      first.sentences,
      Contains("attempt 1 failed after 0.0 s: task/0 (pid 100) ended with exit code 1 after "
               "0.0 s: ValueError: no gradient; attempt 2 begins (restart 1 of 1)"));
  Begin({.size = 1});
  Do(OutputEnded{M(0)});
  const Effects last = Do(ProcessEnded{.member = M(0), .ending = {1, 0}, .error = "KeyError: 'x'"});
  EXPECT_THAT(last.sentences, Contains("task/0 (pid 101) ended with exit code 1 after 0.0 s: "
                                       "KeyError: 'x' <- the first to fail"));
}

TEST_F(RestartsTest, WhoeverTellsUsToEndWantsNoRestart) {
  Start();
  Do(SignalReceived{SIGTERM});
  End(1, {0, SIGTERM});
  const Effects last = End(0, {0, SIGTERM});
  EXPECT_FALSE(last.restart.has_value());
  EXPECT_EQ(last.exit_code, 128 + SIGTERM);
}

TEST_F(RestartsTest, ASignalBetweenTwoAttemptsEndsIt) {
  options_.size = 1;
  Start();
  EXPECT_TRUE(End(0, {1, 0}).restart.has_value());
  EXPECT_EQ(Do(SignalReceived{SIGINT}).exit_code, 128 + SIGINT);
}

TEST_F(RestartsTest, WhatCannotBeStartedIsNotTriedAgain) {
  supervisor_.emplace(options_);
  Do(AttemptBegins{.size = 2});
  Do(ProcessStarted{M(0), 100});
  Do(StartFailed{M(1), "no such file", kExitNotFound});
  const Effects last = End(0, {0, SIGTERM});
  EXPECT_FALSE(last.restart.has_value());
  EXPECT_EQ(last.exit_code, kExitNotFound);
}

TEST_F(RestartsTest, UseA07_RestartsThatFailAtOnceComeEverLater) {
  options_.restart_backoff = absl::Seconds(1);
  options_.restart_backoff_max = absl::Seconds(3);
  options_.max_restarts = 9;
  Start();
  for (const int wait : {0, 1, 2, 3, 3}) {
    End(1, {0, SIGKILL});
    Effects over = End(0, {static_cast<int>(pid_), 0});
    if (wait > 0) {
      EXPECT_FALSE(over.restart.has_value());
      EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(wait));
      over = Pass(absl::Seconds(wait));
    }
    EXPECT_TRUE(over.restart.has_value()) << wait;
    Begin({.size = 2});
  }
  // What ran for long begins anew.
  now_ = now_ + absl::Minutes(1);
  End(1, {0, SIGKILL});
  EXPECT_TRUE(End(0, {1, 0}).restart.has_value());
}

TEST_F(RestartsTest, TheSameEarlyFailureThreeTimesBeforeAnybodyJoinedEndsTheRun) {
  options_.max_restarts = 9;
  options_.asks_root_cause = true;
  for (const bool joined : {false, true}) {
    Start();
    for (int times = 0; times < 2; ++times) {
      End(1, {1, 0}, {"ModuleNotFoundError"});
      Pass(options_.drain_delay);
      EXPECT_TRUE(End(0, {0, SIGTERM}).restart.has_value());
      Begin({.size = 2});
    }
    End(1, {1, 0}, {"ModuleNotFoundError"});
    Pass(options_.drain_delay);
    EXPECT_TRUE(End(0, {0, SIGTERM}).ask_root_cause);
    const Effects last = Do(RootCauseTold{.joined = joined});
    EXPECT_EQ(last.restart.has_value(), joined);
    if (joined) continue;
    EXPECT_EQ(last.exit_code, 1);
    EXPECT_THAT(last.sentences.back(), HasSubstr("giving up: the same failure 3 times, each "
                                                 "soon after the start; failed after"));
  }
}

// Of three that ran for an hour each nobody knows any more who had joined: torch's store has
// forgotten its keys by then.
TEST_F(RestartsTest, TheSameFailureAfterLongRunsIsNoReasonToGiveUp) {
  options_.max_restarts = 9;
  options_.asks_root_cause = true;
  Start();
  for (int times = 0; times < 5; ++times) {
    now_ = now_ + absl::Hours(1);
    End(1, {1, 0}, {"ConnectionResetError"});
    Pass(options_.drain_delay);
    EXPECT_TRUE(End(0, {0, SIGTERM}).restart.has_value()) << times;
    Begin({.size = 2});
  }
}

TEST_F(RestartsTest, UseA10_WhatARestartWithoutACheckpointLostStandsInTheLastLine) {
  options_.on_preempt = OnPreempt::kRestart;
  Start();
  Do(PreemptionTold{.attempt = 1, .id = 1, .open = true, .near = true, .sources = {"gce"}});
  Do(PreemptionTold{.attempt = 1,
                    .id = 1,
                    .near = true,
                    .step = 7,
                    .outcome = "not_saved",
                    .text = "nobody saved",
                    .sources = {"gce"}});
  End(1, {0, SIGKILL});
  End(0, {0, SIGKILL});
  ASSERT_TRUE(Do(PreemptionChecked{}).restart.has_value());
  Begin({.size = 2});
  End(0, {0, 0});
  Effects last = End(1, {0, 0});
  if (last.check_preemption) last = Do(PreemptionChecked{});
  EXPECT_EQ(last.exit_code, 0);
  EXPECT_THAT(last.sentences.back(),
              HasSubstr("attempt 1 was preempted without a checkpoint of all (preemption 1 (gce): "
                        "not_saved: nobody saved), so its work since the one before was lost"));
}

TEST_F(RestartsTest, AnAttemptHasTheNumberThatTheJobGivesIt) {
  Start();
  End(0, {1, 0});
  EXPECT_TRUE(End(1, {1, 0}).restart.has_value());
  Begin({.size = 2, .number = 8});
  End(0, {1, 0});
  EXPECT_THAT(End(1, {1, 0}).sentences,
              Contains(AllOf(HasSubstr("attempt 8 failed after"),
                             HasSubstr("attempt 9 begins (restart 2 of 2)"))));
}

TEST_F(RestartsTest, AServerThatEndedIsNotStartedAgain) {
  Start();
  Do(ServerEnded{{1, 0}});
  End(0, {1, 0});
  EXPECT_EQ(End(1, {1, 0}).exit_code, kExitLockstepFailed);
}

TEST_F(RestartsTest, UseA05_AfterALostServerAllAreStartedAgainAndTheNextFailureIsTheirOwn) {
  Start();
  Do(ServerLost{"it closed the connection"});
  End(0, {0, SIGABRT});
  ASSERT_TRUE(End(1, {0, SIGABRT}).restart.has_value());
  Begin({.size = 2});
  const Effects own = End(0, {3, 0});
  EXPECT_THAT(own.sentences, Not(Contains(HasSubstr("server broke"))));
}

TEST_F(RestartsTest, ARankAloneIsStartedAgainWhileTheOthersGoOn) {
  options_.scope = RestartScope::kRank;
  Start();
  for (int32_t restarts = 1; restarts <= 2; ++restarts) {
    const Effects failed = End(1, {0, SIGSEGV});
    EXPECT_THAT(failed.starts, ElementsAre(StartAgain{M(1), restarts}));
    EXPECT_THAT(failed.releases, ElementsAre(M(1)));
    EXPECT_THAT(failed.signals, IsEmpty());
    Do(ProcessStarted{M(1), ++pid_});
  }
  // Each has as many.
  EXPECT_THAT(End(0, {1, 0}).starts, ElementsAre(StartAgain{M(0), 1}));
  Do(ProcessStarted{M(0), ++pid_});
  const Effects third = End(1, {9, 0});
  EXPECT_THAT(third.starts, IsEmpty());
  EXPECT_THAT(third.sentences, ElementsAre(HasSubstr("has 10.0 s to end by itself")));
  EXPECT_EQ(End(0, {0, 0}).exit_code, 9);
}

TEST_F(RestartsTest, ARankThatWasToBeStartedAgainIsNotOnceWeAreToldToEnd) {
  options_.scope = RestartScope::kRank;
  Start();
  Do(ProcessEnded{M(1), {1, 0}});  // its helpers still write
  Do(SignalReceived{SIGTERM});
  EXPECT_THAT(Do(OutputEnded{M(1)}).starts, IsEmpty());
  EXPECT_TRUE(End(0, {0, SIGTERM}).exit_code.has_value());
}

// ---- Several nodes.

class NodesTest : public RestartsTest {
 protected:
  NodesTest() {
    options_.alone = false;
    options_.first = 2;
  }
};

TEST_F(NodesTest, TheOthersHearOfAFailureAtOnceAndDecideWhatFollows) {
  Start();
  const Effects failed = End(3, {6, 0});
  ASSERT_TRUE(failed.failure.has_value());
  EXPECT_EQ(failed.failure->member, M(3));
  EXPECT_EQ(failed.failure->exit_code, 6);
  EXPECT_EQ(failed.failure->failure, "ended with exit code 6: ") << "without who and when";
  EXPECT_THAT(failed.failure->text, HasSubstr("task/3 (pid 101) ended with exit code 6"));
  Pass(options_.drain_delay);
  const Effects over = End(2, {0, SIGTERM});
  EXPECT_EQ(over.attempt_over, (AttemptOver{.exit_code = 6, .again = false}));
  EXPECT_FALSE(over.restart.has_value());
  Begin({.first = 0, .size = 1, .failures = 1});  // the other node is gone
  const Effects last = End(0, {0, 0});
  EXPECT_EQ(last.attempt_over, (AttemptOver{.exit_code = 0, .again = false}));
  const Effects ended = Do(RunEnded{0, "all nodes are done"});
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.sentences.back(), "all nodes are done after 0.2 s, exit code 0");
}

// The server died after our processes had succeeded: nobody is left to say that the run is over.
TEST_F(NodesTest, WhoHasNothingLeftToDoWaitsForNoServerForEver) {
  options_.node_server_timeout = absl::Minutes(10);
  Start();
  Do(NodeServerLost{"connection refused"});
  now_ = now_ + absl::Hours(1);
  End(2, {0, 0});
  EXPECT_TRUE(End(3, {0, 0}).attempt_over.has_value());
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + options_.node_server_timeout);
  const Effects last = Pass(options_.node_server_timeout);
  EXPECT_EQ(last.exit_code, 0);
  EXPECT_THAT(last.sentences.back(), HasSubstr("was not reached for"));
  EXPECT_THAT(last.sentences.back(), HasSubstr("connection refused"));
}

TEST_F(NodesTest, UseA10_APreemptedRunEndsWithTheStepAndWhoSaved) {
  Start();
  PreemptionTold told;
  told.id = told.attempt = 1;
  told.open = told.near = true;
  told.step = 66;
  told.sources = {"signal"};
  Do(told);
  told.open = false;
  told.outcome = "saved";
  told.text = "4 of 4 members saved at step 66";
  Do(told);
  End(2, {0, 0});
  const Effects over = End(3, {0, 0});
  ASSERT_TRUE(over.attempt_over.has_value());
  EXPECT_EQ(over.attempt_over->exit_code, kExitPreempted);
  EXPECT_EQ(over.attempt_over->text,
            "preempted; preemption 1 (signal): saved: 4 of 4 members saved at step 66");
  const Effects ended = Do(RunEnded{kExitPreempted, "node 0 ended with exit code 83"});
  EXPECT_THAT(ended.sentences.back(),
              AllOf(HasSubstr("preempted after"), HasSubstr("4 of 4 members saved at step 66")));
  ASSERT_TRUE(ended.result.has_value());
  EXPECT_EQ(ended.result->outcome, "preempted");
}

// All nodes wait at their group, which counts the failures of all.
TEST_F(NodesTest, UseA07_NoNodeHoldsUpTheOthersByAWaitOfItsOwn) {
  options_.restart_backoff = absl::Seconds(1);
  Start();
  for (int times = 0; times < 3; ++times) {
    End(3, {1, 0});
    Do(AttemptCalledOff{"task/3 failed", true});
    Pass(options_.drain_delay);
    EXPECT_TRUE(End(2, {0, SIGTERM}).attempt_over.has_value()) << times;
    Begin({.first = 2, .size = 2, .failures = times + 1});
  }
}

TEST_F(NodesTest, AServerThatComesBackIsWaitedFor) {
  Start();
  Do(NodeServerLost{"connection refused"});
  End(2, {0, 0});
  End(3, {1, 0});
  Do(NodeServerFound{});
  EXPECT_EQ(supervisor_->NextDeadline(), Time::Infinite());
  EXPECT_FALSE(Pass(absl::Hours(1)).exit_code.has_value());
  EXPECT_EQ(Do(RunEnded{1, "task/3 failed"}).exit_code, 1);
}

TEST_F(NodesTest, UseA08_ANodeThatIsGoneIsTheCauseAndNotOursThatFailedByIt) {
  Start();
  End(3, {1, 0});
  const Effects called = Do(AttemptCalledOff{
      "node 1 on h2 is gone: its connection broke; then node 0: task/3 (pid 101) ended with exit "
      "code 1 after 0.0 s",
      false});
  EXPECT_THAT(called.sentences, ElementsAre(HasSubstr("node 1 on h2 is gone")));
  Pass(options_.grace);
  End(2, {0, SIGTERM});
  const Effects last = Do(RunEnded{1, "node 1 on h2 is gone"});
  EXPECT_THAT(last.sentences, Contains(HasSubstr("<- the first to fail")).Times(1));
  EXPECT_THAT(last.sentences.front(), HasSubstr("node 1 on h2 is gone: its connection broke"));
}

TEST_F(NodesTest, WhatAnotherNodeFailedAtStopsOurs) {
  Start();
  const Effects called = Do(AttemptCalledOff{"node 1 lost task/7", true});
  EXPECT_THAT(called.sentences, ElementsAre("node 1 lost task/7; our processes are stopped"));
  const Effects stopped = Pass(options_.drain_delay);
  EXPECT_THAT(stopped.signals, Contains(SignalGroup{M(2), SIGTERM}));
  End(2, {0, SIGTERM});
  const Effects over = End(3, {0, SIGTERM});
  EXPECT_FALSE(over.failure.has_value()) << "it is not ours to tell";
  EXPECT_TRUE(over.attempt_over.has_value());
}

TEST_F(NodesTest, ARunThatEndsBeforeItsFirstAttemptEnds) {
  supervisor_.emplace(options_);
  EXPECT_THAT(Do(AttemptCalledOff{"node 1 is gone", true}).signals, IsEmpty());
  const Effects ended = Do(RunEnded{1, "not enough nodes came within 1m"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.sentences.back(), "not enough nodes came within 1m, exit code 1");
}

TEST_F(NodesTest, WithoutAnotherAttemptOursHaveTheGrace) {
  Start();
  Do(AttemptCalledOff{"node 1 is gone", false});
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + options_.grace);
  End(2, {1, 0});
  EXPECT_TRUE(End(3, {1, 0}).attempt_over.has_value());
  EXPECT_EQ(Do(RunEnded{9, "failed"}).exit_code, 9);
}

TEST_F(NodesTest, WhoIsDoneWaitsAndMayBeNeededAgain) {
  Start();
  End(2, {0, 0});
  EXPECT_EQ(End(3, {0, 0}).attempt_over, (AttemptOver{}));
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite());
  EXPECT_THAT(Do(AttemptCalledOff{"node 1 is gone", true}).signals, IsEmpty());
  Begin({.first = 2, .size = 2, .failures = 1});
  EXPECT_EQ(End(2, {0, 0}).attempt_over.has_value(), false);
}

TEST_F(NodesTest, WhoIsToldToEndEndsWhateverTheOthersDo) {
  Start();
  Do(SignalReceived{SIGTERM});
  EXPECT_THAT(Do(AttemptCalledOff{"node 1 was told to end", true}).sentences, IsEmpty());
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite()) << "it saves";
  EXPECT_FALSE(End(2, {0, SIGTERM}).failure.has_value()) << "it leaves, and that is told";
  const Effects last = End(3, {0, 0});
  EXPECT_FALSE(last.attempt_over.has_value());
  EXPECT_EQ(last.exit_code, 128 + SIGTERM);
}

TEST_F(NodesTest, WhatCannotBeStartedIsToldToo) {
  supervisor_.emplace(options_);
  Do(AttemptBegins{.first = 2, .size = 2});
  const Effects failed = Do(StartFailed{M(2), "no such file", kExitNotFound});
  ASSERT_TRUE(failed.failure.has_value());
  EXPECT_EQ(failed.failure->exit_code, kExitNotFound);
  EXPECT_EQ(failed.attempt_over, (AttemptOver{.exit_code = kExitNotFound, .again = false}));
}

TEST_F(NodesTest, AnAttemptAfterOneThatCouldNotBeStartedIsOnUntilItsProcessesEnd) {
  supervisor_.emplace(options_);
  Do(AttemptBegins{.first = 2, .size = 2});
  EXPECT_TRUE(Do(StartFailed{M(2), "no more processes", 1}).attempt_over.has_value());
  EXPECT_FALSE(Do(AttemptBegins{.first = 2, .size = 2}).attempt_over.has_value());
  Do(ProcessStarted{M(2), 100});
  Do(ProcessStarted{M(3), 101});
  EXPECT_FALSE(End(2, {0, 0}).attempt_over.has_value());
  EXPECT_EQ(End(3, {0, 0}).attempt_over, (AttemptOver{.exit_code = 0, .again = false}));
}

TEST_F(NodesTest, WhatTheOthersCallOffWhileARestartWaitsHasNoDeadlineLeft) {
  options_.scope = RestartScope::kNode;
  options_.max_restarts = 9;
  options_.restart_backoff = absl::Seconds(8);
  options_.size = 1;
  Start();
  EXPECT_TRUE(End(2, {1, 0}).restart.has_value());
  Begin({.first = 2, .size = 1});
  EXPECT_FALSE(End(2, {1, 0}).restart.has_value());
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(8));
  EXPECT_TRUE(Do(AttemptCalledOff{"node 1 is gone", true}).attempt_over.has_value());
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite());
}

TEST_F(NodesTest, WhatTheOthersCallOffWhileTheHostMayDieHasNoDeadlineLeft) {
  options_.on_preempt = OnPreempt::kWait;
  options_.size = 1;
  Start();
  PreemptionTold told{.attempt = 1, .id = 1, .open = true, .near = true, .step = 7};
  told.left = absl::Seconds(30);
  Do(told);
  told.open = false;
  told.outcome = "saved";
  Do(told);
  EXPECT_TRUE(End(2, {0, 0}).check_preemption);
  EXPECT_FALSE(Do(PreemptionChecked{}).attempt_over.has_value());
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(30));
  EXPECT_TRUE(Do(AttemptCalledOff{"node 1 is gone", true}).attempt_over.has_value());
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite());
}

TEST_F(NodesTest, ANodeOfItsOwnScopeStartsItsProcessesAlone) {
  options_.scope = RestartScope::kNode;
  options_.max_restarts = 1;
  Start();
  EXPECT_FALSE(End(2, {1, 0}).failure.has_value());
  Pass(options_.drain_delay);
  EXPECT_EQ(End(3, {0, SIGTERM}).restart, 1);
  Begin({.first = 2, .size = 2});
  EXPECT_TRUE(End(2, {1, 0}).failure.has_value()) << "none is left";
}

}  // namespace
}  // namespace lockstep::launch

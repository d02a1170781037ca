// What the supervisor takes for the cause of a failure.
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
using Kind = ProcessReport::Kind;

class CausesTest : public SupervisorFixture {
 protected:
  // Starts `size` processes with the pids 100, 101, ...
  void StartAll(int32_t size) {
    options_.size = size;
    supervisor_.emplace(options_);
    Do(AttemptBegins{.size = size});
    for (int32_t i = 0; i < size; ++i) Do(ProcessStarted{M(i), 100 + i});
  }
  Effects End(int32_t index, ExitStatus ending) {
    Do(OutputEnded{M(index)});
    return Do(ProcessEnded{M(index), ending});
  }
  Effects Raise(int32_t index, const std::string& text = "ValueError: bad, train.py:24") {
    Do(ExceptionRaised{M(index), 100 + index, text});
    return Pass(options_.raised_window);
  }

  CausesTest() { options_.raised_window = absl::ZeroDuration(); }

  SupervisorOptions options_;
};

TEST_F(CausesTest, UseA07_AnExceptionIsTheFailureBeforeItsProcessEnds) {
  StartAll(3);
  const Effects raised = Raise(2);
  EXPECT_THAT(raised.sentences,
              ElementsAre("task/2 (pid 102) raised ValueError: bad, train.py:24; the other 2 "
                          "processes have 10.0 s to end by themselves"));
  EXPECT_THAT(raised.reports, ElementsAre(ProcessReport{
                                  Kind::kEnding, M(2), 102, {}, "ValueError: bad, train.py:24"}));
  EXPECT_THAT(Raise(2).reports, IsEmpty());
  EXPECT_THAT(Raise(1).sentences, IsEmpty()) << "it follows";
  // Its exit handler waits for the others, and they for it.
  const Effects ends = Pass(absl::Seconds(10));
  EXPECT_THAT(ends.signals, Contains(SignalGroup{M(2), SIGTERM}));
  // JAX takes that for a preemption.
  Do(PreemptionTold{.attempt = 1, .id = 1, .open = true, .near = true, .sources = {"jax"}});
  End(0, {0, SIGTERM});
  End(1, {0, SIGTERM});
  const Effects last = End(2, {0, SIGTERM});
  EXPECT_EQ(last.exit_code, 1) << "as Python ends over an exception";
  EXPECT_THAT(last.sentences.front(),
              HasSubstr("task/2 (pid 102) was killed by SIGTERM after 10.0 s: ValueError: bad, "
                        "train.py:24 (sent by lockstep run) <- the first to fail"));
  EXPECT_EQ(last.sentences.back(), "failed after 10.0 s, exit code 1");
  EXPECT_EQ(last.result->first_failed, 2);
  EXPECT_EQ(last.result->processes[2].error, "ValueError: bad, train.py:24");
}

TEST_F(CausesTest, UseA07_TheExitCodeOfWhoRaisedIsItsOwn) {
  StartAll(1);
  EXPECT_THAT(Raise(0).sentences, ElementsAre(HasSubstr("; it has 10.0 s to end by itself")));
  EXPECT_EQ(End(0, {7, 0}).exit_code, 7);
}

TEST_F(CausesTest, UseA09_WhoRaisesSinceAPeerIsGoneIsNotTheFirst) {
  options_.raised_window = absl::Milliseconds(250);
  options_.asks_root_cause = true;
  StartAll(2);
  // Its socket broke before we see the other's end.
  Do(ExceptionRaised{M(0), 100, "Connection reset by peer"});
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Milliseconds(250));
  const Effects killed = End(1, {0, SIGKILL});
  EXPECT_THAT(killed.sentences, ElementsAre(HasSubstr("task/1 (pid 101) was killed by SIGKILL")));
  const Effects told = Pass(absl::Milliseconds(250));
  EXPECT_THAT(told.sentences, IsEmpty());
  EXPECT_THAT(told.reports,
              ElementsAre(ProcessReport{Kind::kEnding, M(0), 100, {}, "Connection reset by peer"}));
  EXPECT_TRUE(End(0, {1, 0}).ask_root_cause);
  const Effects last = Do(RootCauseTold{M(1)});
  EXPECT_THAT(last.sentences.front(), HasSubstr("task/1"));
  EXPECT_EQ(last.exit_code, 128 + SIGKILL);
}

TEST_F(CausesTest, UseA07_WhateverTheGraceAnExceptionIsPrintedFirst) {
  options_.grace = absl::ZeroDuration();
  StartAll(2);
  Raise(0);
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(1));
  now_ = now_ + absl::Milliseconds(20);
  End(0, {1, 0});
  EXPECT_EQ(supervisor_->NextDeadline(), now_);
  EXPECT_THAT(Pass(absl::ZeroDuration()).signals, Contains(SignalGroup{M(1), SIGTERM}));
}

TEST_F(CausesTest, UseA07_AnExceptionOfAProcessBeforeOrAfterAnEndIsNone) {
  StartAll(1);
  EXPECT_THAT(Do(ExceptionRaised{M(0), 99, "ValueError"}).sentences, IsEmpty());
  End(0, {0, 0});
  EXPECT_THAT(Raise(0).reports, IsEmpty());
}

TEST_F(CausesTest, UseA07_ARankThatRaisesIsEndedAndStartedAgainAlone) {
  options_.scope = RestartScope::kRank;
  options_.max_restarts = 1;
  StartAll(2);
  EXPECT_THAT(Raise(1).sentences, ElementsAre(HasSubstr("; it has 10.0 s to end")));
  EXPECT_THAT(Pass(absl::Seconds(10)).signals, ElementsAre(SignalGroup{M(1), SIGTERM}));
  EXPECT_THAT(Pass(absl::Seconds(5)).signals, ElementsAre(SignalGroup{M(1), SIGKILL}));
  EXPECT_THAT(End(1, {0, SIGKILL}).starts, ElementsAre(StartAgain{M(1), 1}));
}

TEST_F(CausesTest, UseA08_WhoIsToldToEndIsReportedBefore) {
  StartAll(2);
  End(0, {0, SIGKILL});
  const Effects ends = Pass(absl::Seconds(10));
  EXPECT_THAT(ends.reports, ElementsAre(ProcessReport{Kind::kEnding, M(1), 101, {}}));
  EXPECT_THAT(ends.signals, Contains(SignalGroup{M(1), SIGTERM}));
}

TEST_F(CausesTest, UseA09_WhoLeftEarlyIsNamedWhenTheOthersFollowed) {
  options_.asks_root_cause = true;
  StartAll(2);
  End(1, {0, 0});
  EXPECT_TRUE(End(0, {0, SIGABRT}).ask_root_cause);
  const Effects last = Do(RootCauseTold{M(1)});
  EXPECT_EQ(last.exit_code, 128 + SIGABRT);
  EXPECT_EQ(last.sentences.front(),
            "task/1 (pid 101) ended with exit code 0 after 0.0 s without leaving the job <- the "
            "first to fail");
}

TEST_F(CausesTest, UseA09_ASignalToUsIsNobodysFailure) {
  StartAll(2);
  EXPECT_TRUE(Do(SignalReceived{SIGTERM}).tell_why);
  EXPECT_FALSE(Do(SignalReceived{SIGTERM}).tell_why) << "once";
  End(0, {0, SIGTERM});
  const Effects last = End(1, {0, SIGTERM});
  EXPECT_EQ(last.exit_code, 128 + SIGTERM);
  EXPECT_THAT(last.sentences, Not(Contains(HasSubstr("first to fail"))));
  EXPECT_EQ(last.sentences.back(), "ended by SIGTERM after 0.0 s, exit code 143");
  EXPECT_EQ(last.result->outcome, "signalled");
}

TEST_F(CausesTest, UseA06_WhoDoesNotNeedTheServerSucceedsWithoutIt) {
  StartAll(2);
  Do(ServerEnded{{0, SIGKILL}});
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite());
  End(0, {0, 0});
  EXPECT_EQ(End(1, {0, 0}).exit_code, 0);
}

// Stock JAX ends its processes as soon as its coordination service is gone.
TEST_F(CausesTest, UseA05_AServerWhoseLinkBrokeIsTheCauseOfWhatFailsThen) {
  StartAll(2);
  Do(ServerLost{"10.0.0.1:7070 closed the connection"});
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite());
  const Effects first = End(0, {0, SIGABRT});
  EXPECT_THAT(first.sentences,
              Contains(HasSubstr("the connection to the coordinator's server broke: "
                                 "10.0.0.1:7070 closed the connection; then ")));
  const Effects last = End(1, {0, SIGABRT});
  EXPECT_EQ(last.exit_code, kExitLockstepFailed);
  EXPECT_THAT(last.sentences,
              Contains("the connection to the coordinator's server broke: 10.0.0.1:7070 "
                       "closed the connection <- the first to fail"));
}

TEST_F(CausesTest, UseA05_AServerIsBlamedForNoExceptionOfTheProgram) {
  for (const char* own : {"ValueError: bad sample, train.py:24", "KeyError: 'lr'"}) {
    StartAll(2);
    Do(ServerLost{"it closed the connection"});
    EXPECT_THAT(Raise(1, own).sentences, Contains(HasSubstr(own)));
    End(1, {3, 0});
    const Effects last = End(0, {0, SIGTERM});
    EXPECT_EQ(last.exit_code, 3) << own;
    EXPECT_THAT(last.sentences, Not(Contains(HasSubstr("server broke")))) << own;
  }
  for (const char* of_it : {"DistNetworkError: failed to send: Broken pipe",
                            "ConnectionRefusedError: [Errno 111] Connection refused"}) {
    StartAll(2);
    Do(ServerLost{"it closed the connection"});
    EXPECT_THAT(Raise(1, of_it).sentences, Contains(HasSubstr("server broke"))) << of_it;
    End(1, {1, 0});
    EXPECT_EQ(End(0, {0, SIGTERM}).exit_code, kExitLockstepFailed) << of_it;
  }
}

TEST_F(CausesTest, UseA05_AServerThatWasFoundAgainAndOutlivedIsNoCause) {
  StartAll(2);
  Do(ServerLost{"it closed the connection"});
  Do(ServerFound{});
  now_ = now_ + options_.server_survived;
  EXPECT_THAT(End(1, {0, SIGSEGV}).sentences, Not(Contains(HasSubstr("server broke"))));
  EXPECT_EQ(End(0, {0, SIGTERM}).exit_code, 128 + SIGSEGV);
}

TEST_F(CausesTest, UseA05_WhoDiesRightAfterTheServerWasFoundDiedOfItsAbsence) {
  StartAll(1);
  Do(ServerLost{"it closed the connection"});
  Do(ServerFound{});
  EXPECT_EQ(End(0, {0, SIGABRT}).exit_code, kExitLockstepFailed);
}

TEST_F(CausesTest, UseA05_WhoDoesNotNeedTheServerThatWasLostSucceeds) {
  StartAll(1);
  Do(ServerLost{"it closed the connection"});
  EXPECT_EQ(End(0, {0, 0}).exit_code, 0);
}

TEST_F(CausesTest, UseA06_WhatFailsLongAfterTheServerFailsByItself) {
  StartAll(1);
  Do(ServerEnded{{0, SIGKILL}});
  now_ = now_ + absl::Minutes(2);
  EXPECT_EQ(End(0, {3, 0}).exit_code, 3);
}

}  // namespace
}  // namespace lockstep::launch

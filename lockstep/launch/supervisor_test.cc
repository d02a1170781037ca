#include "lockstep/launch/supervisor.h"

#include <csignal>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/launch/exit_code.h"
#include "lockstep/launch/supervisor_testing.h"

namespace lockstep::launch {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A supervisor, the time, and everything it has wanted so far.
class SupervisorTest : public SupervisorFixture {
 protected:
  void Make(int32_t size) {
    SupervisorOptions options;
    options.size = size;
    options.asks_root_cause = asks_;
    options.on_preempt = on_preempt_;
    options.notice_signals = notice_signals_;
    options.term_grace = term_grace_;
    options.grace = grace_;
    supervisor_.emplace(options);
  }
  // Starts `size` processes with the pids 100, 101, ...
  void StartAll(int32_t size) {
    Make(size);
    for (int32_t i = 0; i < size; ++i) Do(ProcessStarted{M(i), 100 + i});
  }
  // A process that ends with nothing left behind.
  Effects End(int32_t index, ExitStatus ending) {
    Do(OutputEnded{M(index)});
    const Effects effects = Do(ProcessEnded{M(index), ending});
    return effects.check_preemption ? Do(PreemptionChecked{checked_}) : effects;
  }

  // The job hears of a preemption, and how it ended.
  void Preempt(std::optional<absl::Duration> left = std::nullopt) {
    told_ = {.attempt = 1, .id = 1, .open = true, .near = true, .sources = {"gce"}, .left = left};
    Do(told_);
  }
  Effects EndPreemption(const char* outcome) {
    told_.open = false;
    told_.outcome = outcome;
    told_.step = 7;
    told_.text = "all at step 7";
    return Do(told_);
  }

  bool asks_ = false;
  absl::Duration grace_ = absl::Seconds(10);
  OnPreempt on_preempt_ = OnPreempt::kExit;
  std::vector<int> notice_signals_;
  absl::Duration term_grace_ = absl::InfiniteDuration();
  PreemptionTold told_;
  std::optional<PreemptionTold> checked_;  // the answer when it is asked how it stands
};

TEST_F(SupervisorTest, AllSucceed) {
  StartAll(2);
  EXPECT_FALSE(End(0, {0, 0}).exit_code.has_value());
  now_ = now_ + absl::Seconds(3);
  const Effects last = End(1, {0, 0});
  EXPECT_EQ(last.exit_code, 0);
  EXPECT_THAT(last.sentences, ElementsAre("task/0 (pid 100) ended with exit code 0 after 0.0 s",
                                          "task/1 (pid 101) ended with exit code 0 after 3.0 s",
                                          "all 2 succeeded in 3.0 s"));
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite());
}

TEST_F(SupervisorTest, EveryStartAndEndIsReported) {
  Make(1);
  EXPECT_THAT(Do(ProcessStarted{M(0), 7}).reports,
              ElementsAre(ProcessReport{ProcessReport::Kind::kStarted, M(0), 7, {}}));
  EXPECT_THAT(Do(ProcessEnded{M(0), {0, SIGSEGV}}).reports,
              ElementsAre(ProcessReport{ProcessReport::Kind::kEnded, M(0), 7, {0, SIGSEGV}}));
}

TEST_F(SupervisorTest, FirstFailureNamesItsCauseAndGivesTheExitCode) {
  StartAll(4);
  now_ = now_ + absl::Seconds(12) + absl::Milliseconds(300);
  const Effects first = End(2, {0, SIGKILL});
  EXPECT_THAT(
      first.sentences,
      ElementsAre("task/2 (pid 102) was killed by SIGKILL after 12.3 s, not by lockstep run "
                  "(the kernel's log tells whether memory ran out); the other 3 processes "
                  "have 10.0 s to end by themselves"));
  EXPECT_THAT(first.signals, IsEmpty());
  // What follows from it is told in the verdict only.
  EXPECT_THAT(End(0, {134, 0}).sentences, IsEmpty());
  EXPECT_THAT(End(1, {0, SIGABRT}).sentences, IsEmpty());
  const Effects last = End(3, {0, 0});
  EXPECT_EQ(last.exit_code, 128 + SIGKILL);
  EXPECT_THAT(last.sentences, Contains("task/2 (pid 102) was killed by SIGKILL after 12.3 s "
                                       "<- the first to fail"));
  EXPECT_THAT(last.sentences.back(), "failed after 12.3 s, exit code 137");
}

TEST_F(SupervisorTest, WhoFailedFirstIsTheCoordinatorsToSay) {
  asks_ = true;
  StartAll(3);
  End(1, {1, 0});  // quicker to end over the error than the one who had it
  End(2, {1, 0});
  const Effects over = End(0, {42, 0});
  EXPECT_TRUE(over.ask_root_cause);
  EXPECT_FALSE(over.exit_code.has_value());
  const Effects last = Do(RootCauseTold{M(0)});
  EXPECT_EQ(last.exit_code, 42);
  EXPECT_THAT(last.sentences, Contains("task/0 (pid 100) ended with exit code 42 after 0.0 s "
                                       "<- the first to fail"));
}

TEST_F(SupervisorTest, WithoutAWordOnItTheFirstToEndCounts) {
  asks_ = true;
  for (const auto& told :
       {std::optional<MemberIndex>(), std::optional(M(2)), std::optional(M(7))}) {
    StartAll(3);
    End(1, {1, 0});
    End(0, {42, 0});
    EXPECT_TRUE(End(2, {0, 0}).ask_root_cause);
    EXPECT_EQ(Do(RootCauseTold{told}).exit_code, 1) << "2 has not failed, 7 is nobody";
  }
  StartAll(2);
  End(1, {1, 0});
  EXPECT_TRUE(End(0, {42, 0}).ask_root_cause);
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(2));
  EXPECT_EQ(Pass(absl::Seconds(2)).exit_code, 1);
}

TEST_F(SupervisorTest, WhereOneFailedNobodyIsAsked) {
  asks_ = true;
  StartAll(2);
  End(1, {5, 0});
  EXPECT_EQ(End(0, {0, 0}).exit_code, 5);
}

TEST_F(SupervisorTest, ThoseThatStayGetSigtermThenSigkill) {
  StartAll(3);
  End(1, {3, 0});
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(10));
  EXPECT_THAT(Pass(absl::Seconds(10) - absl::Nanoseconds(1)).signals, IsEmpty());
  // Stopped processes take SIGTERM only when they go on.
  EXPECT_THAT(Pass(absl::Nanoseconds(1)).signals,
              ElementsAre(SignalGroup{M(0), SIGTERM}, SignalGroup{M(2), SIGTERM},
                          SignalGroup{M(0), SIGCONT}, SignalGroup{M(2), SIGCONT}));
  const Effects ended = End(0, {0, SIGTERM});
  EXPECT_THAT(ended.sentences, IsEmpty());
  EXPECT_THAT(Pass(absl::Seconds(5)).signals, ElementsAre(SignalGroup{M(2), SIGKILL}));
  const Effects last = End(2, {0, SIGKILL});
  EXPECT_EQ(last.exit_code, 3);
  EXPECT_THAT(
      last.sentences,
      Contains("task/2 (pid 102) was killed by SIGKILL after 15.0 s (sent by lockstep run)"));
  EXPECT_THAT(
      last.sentences,
      Contains("task/0 (pid 100) was killed by SIGTERM after 10.0 s (sent by lockstep run)"));
}

TEST_F(SupervisorTest, ProcessThatHangsInTheKernelIsGivenUp) {
  StartAll(2);
  End(0, {1, 0});
  Pass(absl::Seconds(10));
  Pass(absl::Seconds(5));
  const Effects last = Pass(absl::Seconds(10));
  EXPECT_THAT(last.releases, ElementsAre(M(1)));
  EXPECT_EQ(last.exit_code, 1);
  EXPECT_THAT(last.sentences, Contains(HasSubstr("task/1 (pid 101) did not end even by SIGKILL")));
}

TEST_F(SupervisorTest, SuccessOfOneLeavesTheOthersAlone) {
  StartAll(2);
  End(0, {0, 0});
  EXPECT_THAT(Pass(absl::Hours(100)).signals, IsEmpty());
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite());
}

TEST_F(SupervisorTest, SignalsAreForwardedToThoseThatRun) {
  StartAll(3);
  End(1, {0, 0});
  const Effects effects = Do(SignalReceived{SIGUSR1});
  EXPECT_THAT(effects.signals, ElementsAre(SignalGroup{M(0), SIGUSR1}, SignalGroup{M(2), SIGUSR1}));
  EXPECT_THAT(effects.sentences, ElementsAre("SIGUSR1: passed on to 2 processes"));
}

TEST_F(SupervisorTest, SigtermIsANoticeAndStartsNoEscalation) {
  StartAll(2);
  Do(SignalReceived{SIGTERM});
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite());
  End(0, {0, 0});
  EXPECT_EQ(End(1, {0, 0}).exit_code, 0);
}

TEST_F(SupervisorTest, ASecondInterruptKillsWhateverTheGraceIsAndNobodyHasFailed) {
  for (const absl::Duration grace : {absl::ZeroDuration(), absl::Seconds(10), absl::Hours(1)}) {
    grace_ = grace;
    StartAll(2);
    const Effects first = Do(SignalReceived{SIGINT});
    EXPECT_THAT(first.signals, ElementsAre(SignalGroup{M(0), SIGINT}, SignalGroup{M(1), SIGINT}));
    EXPECT_THAT(first.sentences,
                ElementsAre("SIGINT: passed on to 2 processes; again within 10.0 s kills"));
    now_ = now_ + kSecondInterruptWindow;
    EXPECT_THAT(Do(SignalReceived{SIGINT}).signals,
                ElementsAre(SignalGroup{M(0), SIGKILL}, SignalGroup{M(1), SIGKILL}));
    End(0, {0, SIGKILL});
    const Effects last = End(1, {0, SIGKILL});
    EXPECT_EQ(last.exit_code, 128 + SIGINT);
    EXPECT_THAT(last.sentences, Not(Contains(HasSubstr("first to fail"))));
    EXPECT_EQ(last.sentences.back(), "interrupted after 10.0 s, exit code 130");
  }
}

TEST_F(SupervisorTest, WhoEndsByTheFirstOfTwoInterruptsHasNotFailedEither) {
  asks_ = true;
  StartAll(3);
  Do(SignalReceived{SIGINT});
  End(0, {1, 0});
  End(1, {1, 0});
  Do(SignalReceived{SIGINT});
  const Effects last = End(2, {0, SIGKILL});
  EXPECT_EQ(last.exit_code, 128 + SIGINT) << "nobody is asked whose failure came first";
  EXPECT_THAT(last.sentences, Not(Contains(HasSubstr("first to fail"))));
}

TEST_F(SupervisorTest, WhatFailedBeforeTheInterruptsStaysTheFailure) {
  StartAll(2);
  End(0, {3, 0});
  now_ = now_ + absl::Seconds(1);
  Do(SignalReceived{SIGINT});
  Do(SignalReceived{SIGINT});
  const Effects last = End(1, {0, SIGKILL});
  EXPECT_EQ(last.exit_code, 3);
  EXPECT_THAT(last.sentences, Contains(HasSubstr("task/0 (pid 100) ended with exit code 3 after "
                                                 "0.0 s <- the first to fail")));
}

TEST_F(SupervisorTest, LateInterruptIsForwardedAgain) {
  StartAll(1);
  Do(SignalReceived{SIGINT});
  now_ = now_ + kSecondInterruptWindow + absl::Nanoseconds(1);
  EXPECT_THAT(Do(SignalReceived{SIGINT}).signals, ElementsAre(SignalGroup{M(0), SIGINT}));
}

TEST_F(SupervisorTest, StopAndContinueAreToldAndReported) {
  StartAll(2);
  const Effects stopped = Do(ProcessStopped{M(1), SIGSTOP});
  EXPECT_THAT(stopped.reports,
              ElementsAre(ProcessReport{ProcessReport::Kind::kStopped, M(1), 101, {}}));
  EXPECT_THAT(stopped.sentences, ElementsAre(HasSubstr("task/1 (pid 101) was stopped by SIGSTOP")));
  now_ = now_ + absl::Seconds(30);
  const Effects continued = Do(ProcessContinued{M(1)});
  EXPECT_THAT(continued.reports,
              ElementsAre(ProcessReport{ProcessReport::Kind::kContinued, M(1), 101, {}}));
  EXPECT_THAT(continued.sentences, ElementsAre("task/1 (pid 101) goes on after 30.0 s"));
  EXPECT_THAT(Do(ProcessContinued{M(1)}).reports, IsEmpty());
}

TEST_F(SupervisorTest, ProcessIsReleasedWhenItsOutputHasEnded) {
  StartAll(2);
  EXPECT_THAT(Do(ProcessEnded{M(0), {0, 0}}).releases, IsEmpty());
  EXPECT_THAT(Do(OutputEnded{M(0)}).releases, ElementsAre(M(0)));
  // A process may close its output long before it ends.
  EXPECT_THAT(Do(OutputEnded{M(1)}).releases, IsEmpty());
  EXPECT_THAT(Do(ProcessEnded{M(1), {0, 0}}).releases, ElementsAre(M(1)));
}

TEST_F(SupervisorTest, HelpersThatOutliveTheirProcessGetTwoSeconds) {
  StartAll(1);
  Do(ProcessEnded{M(0), {0, 0}});
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(2));
  const Effects late = Pass(absl::Seconds(2));
  EXPECT_THAT(late.releases, ElementsAre(M(0)));
  EXPECT_THAT(late.sentences, Contains("task/0 (pid 100) left processes behind; they are killed"));
  EXPECT_EQ(late.exit_code, 0);
}

TEST_F(SupervisorTest, SecondInterruptDoesNotWaitForHelpers) {
  StartAll(1);
  Do(SignalReceived{SIGINT});
  Do(ProcessEnded{M(0), {0, SIGINT}});
  const Effects last = Do(SignalReceived{SIGINT});
  EXPECT_THAT(last.releases, ElementsAre(M(0)));
  EXPECT_EQ(last.exit_code, 128 + SIGINT);
}

TEST_F(SupervisorTest, StartThatFailsEndsTheJobWithoutGrace) {
  Make(3);
  Do(ProcessStarted{M(0), 100});
  const Effects failed = Do(StartFailed{M(1), "no more processes allowed", kExitCannotExecute});
  EXPECT_THAT(failed.signals, ElementsAre(SignalGroup{M(0), SIGTERM}, SignalGroup{M(0), SIGCONT}));
  EXPECT_THAT(failed.sentences, Contains("task/1 could not be started: no more processes allowed"));
  const Effects last = End(0, {0, SIGTERM});
  EXPECT_EQ(last.exit_code, kExitCannotExecute);
  EXPECT_THAT(last.sentences, Contains("task/2 was not started"));
}

TEST_F(SupervisorTest, FirstStartThatFailsEndsAtOnce) {
  Make(2);
  const Effects failed = Do(StartFailed{M(0), "permission denied", kExitCannotExecute});
  EXPECT_EQ(failed.exit_code, kExitCannotExecute);
}

TEST_F(SupervisorTest, ServerThatEndsIsAFailureOfLockstep) {
  StartAll(2);
  const Effects lost = Do(ServerEnded{{0, SIGSEGV}});
  EXPECT_THAT(lost.sentences, ElementsAre(HasSubstr("the coordinator's server was killed by "
                                                    "SIGSEGV although nobody asked it to")));
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite()) << "who does not need it goes on";
  End(0, {134, 0});
  const Effects last = End(1, {134, 0});
  EXPECT_EQ(last.exit_code, kExitLockstepFailed);
  EXPECT_THAT(last.sentences.front(),
              "the coordinator's server was killed by SIGSEGV although "
              "nobody asked it to <- the first to fail");
  EXPECT_THAT(last.sentences, Not(Contains(HasSubstr("code 134 after 0.0 s <- the first"))));
}

TEST_F(SupervisorTest, AHostThatIsCutOffKillsItsProcessesAndEnds) {
  StartAll(2);
  const Effects killed =
      Do(ServerEnded{.ending = {4, 0}, .what = "the agent of this host", .cut_off = true});
  EXPECT_THAT(killed.signals, ElementsAre(SignalGroup{M(0), SIGKILL}, SignalGroup{M(1), SIGKILL}));
  EXPECT_THAT(killed.sentences, Contains(HasSubstr("others may take their place")));
  End(0, {0, SIGKILL});
  const Effects last = End(1, {0, SIGKILL});
  EXPECT_EQ(last.exit_code, kExitLockstepFailed);
  EXPECT_THAT(last.sentences.back(), HasSubstr("start lockstep run here again"));
}

TEST_F(SupervisorTest, NothingComesAfterTheEnd) {
  StartAll(1);
  EXPECT_EQ(End(0, {0, 0}).exit_code, 0);
  const Effects after = Do(SignalReceived{SIGTERM});
  EXPECT_THAT(after.sentences, IsEmpty());
  EXPECT_FALSE(after.exit_code.has_value());
}

TEST_F(SupervisorTest, WhoEndsByAPreemptionHasNotFailed) {
  StartAll(3);
  Preempt(absl::Seconds(30));
  EXPECT_THAT(End(1, {0, SIGKILL}).sentences,
              ElementsAre("task/1 (pid 101) was killed by SIGKILL after 0.0 s, preempted"));
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(40)) << "the others may save";
  EndPreemption("saved");
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(10));
  End(0, {0, 0});
  const Effects last = End(2, {0, 0});
  EXPECT_EQ(last.exit_code, kExitPreempted);
  EXPECT_EQ(last.sentences.back(),
            "preempted after 0.0 s, exit code 83; preemption 1 (gce): saved: all at step 7");
}

TEST_F(SupervisorTest, TheExitCodesOfThePreemptedAreHonoured) {
  StartAll(3);
  Preempt();
  EndPreemption("saved");
  End(0, {0, SIGTERM});
  End(1, {75, 0});
  EXPECT_EQ(End(2, {0, 0}).exit_code, 75);
}

TEST_F(SupervisorTest, WhoWasTakenAwayUnsavedIsToldByTheExitCode) {
  StartAll(2);
  Preempt();
  End(1, {0, SIGKILL});
  EndPreemption("not_saved");
  EXPECT_EQ(End(0, {0, SIGABRT}).exit_code, 128 + SIGKILL);
}

TEST_F(SupervisorTest, WhoDoesNotEndAfterAPreemptionIsEnded) {
  StartAll(2);
  Preempt();
  EndPreemption("saved");
  End(1, {1, 0});
  EXPECT_THAT(Pass(absl::Seconds(10)).signals, Contains(SignalGroup{M(0), SIGTERM}));
  EXPECT_THAT(Pass(absl::Seconds(5)).signals, ElementsAre(SignalGroup{M(0), SIGKILL}));
}

TEST_F(SupervisorTest, LongAfterAPreemptionAFailureIsOne) {
  StartAll(2);
  Preempt();
  EndPreemption("saved");
  now_ = now_ + absl::Hours(1);
  End(1, {3, 0});
  EXPECT_EQ(End(0, {0, 0}).exit_code, 3);
}

TEST_F(SupervisorTest, AFailureBeforeAPreemptionStaysOne) {
  on_preempt_ = OnPreempt::kRestart;
  StartAll(2);
  End(1, {3, 0});
  Preempt();
  const Effects last = End(0, {0, SIGKILL});
  EXPECT_EQ(last.exit_code, 3);
  EXPECT_FALSE(last.restart.has_value());
}

TEST_F(SupervisorTest, ThePreemptedAreStartedAgain) {
  on_preempt_ = OnPreempt::kRestart;
  StartAll(2);
  Preempt();
  EndPreemption("saved");
  End(0, {0, 0});
  const Effects again = End(1, {0, SIGTERM});
  EXPECT_TRUE(again.restart.has_value());
  EXPECT_FALSE(again.exit_code.has_value());
  EXPECT_THAT(again.sentences.back(), HasSubstr("starting them again"));
  Do(AttemptBegins{.size = 2});
  for (int32_t i = 0; i < 2; ++i) Do(ProcessStarted{M(i), 200 + i});
  EndPreemption("saved");  // the word of the attempt before, once more
  End(0, {0, 0});
  const Effects last = End(1, {9, 0});
  EXPECT_EQ(last.exit_code, 9);
  EXPECT_FALSE(last.restart.has_value());
}

TEST_F(SupervisorTest, WorkThatWasDoneBeforeAnybodyWasToSaveIsNotDoneAgain) {
  on_preempt_ = OnPreempt::kRestart;
  StartAll(1);
  Preempt();
  const Effects last = End(0, {0, 0});
  EXPECT_FALSE(last.restart.has_value());
  EXPECT_EQ(last.exit_code, 0);
  EXPECT_EQ(last.sentences.back(), "all 1 succeeded in 0.0 s");
}

TEST_F(SupervisorTest, WithoutAPreemptionNobodyIsStartedAgain) {
  on_preempt_ = OnPreempt::kRestart;
  StartAll(1);
  const Effects last = End(0, {0, 0});
  EXPECT_FALSE(last.restart.has_value());
  EXPECT_EQ(last.exit_code, 0);
}

TEST_F(SupervisorTest, WhoEndsBeforeWeHaveHeardWhyIsStartedAgainToo) {
  on_preempt_ = OnPreempt::kRestart;
  StartAll(1);
  Preempt();
  EndPreemption("saved");
  EXPECT_TRUE(End(0, {0, 0}).restart.has_value());
  Do(AttemptBegins{});
  Do(ProcessStarted{M(0), 200});
  checked_ = told_;
  checked_->attempt = 2;
  EXPECT_TRUE(End(0, {0, 0}).restart.has_value());
}

TEST_F(SupervisorTest, AServerThatDoesNotSayHowItStandsIsNotWaitedForForever) {
  on_preempt_ = OnPreempt::kRestart;
  StartAll(1);
  Do(OutputEnded{M(0)});
  EXPECT_TRUE(Do(ProcessEnded{M(0), {0, 0}}).check_preemption);
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(5));
  EXPECT_EQ(Pass(absl::Seconds(5)).exit_code, 0);
}

TEST_F(SupervisorTest, WaitsUntilTheHostHasOutlivedItsDeath) {
  on_preempt_ = OnPreempt::kWait;
  StartAll(1);
  Preempt(absl::Seconds(30));
  EndPreemption("saved");
  EXPECT_FALSE(End(0, {0, 0}).restart.has_value());
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(30));
  EXPECT_TRUE(Pass(absl::Seconds(30)).restart.has_value());
}

TEST_F(SupervisorTest, WaitsForAWithdrawalWhenNobodyKnowsWhen) {
  on_preempt_ = OnPreempt::kWait;
  StartAll(1);
  Preempt();
  EndPreemption("saved");
  EXPECT_FALSE(End(0, {0, 0}).restart.has_value());
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite());
  told_.withdrawn = true;
  EXPECT_TRUE(Do(told_).restart.has_value());
}

TEST_F(SupervisorTest, ASignalEndsTheWait) {
  on_preempt_ = OnPreempt::kWait;
  StartAll(1);
  Preempt();
  EndPreemption("saved");
  End(0, {0, 0});
  const Effects last = Do(SignalReceived{SIGTERM});
  EXPECT_FALSE(last.restart.has_value());
  EXPECT_EQ(last.exit_code, kExitPreempted);
}

TEST_F(SupervisorTest, ASignalCanBeANotice) {
  notice_signals_ = {SIGTERM};
  on_preempt_ = OnPreempt::kRestart;
  StartAll(1);
  Effects first = Do(SignalReceived{SIGTERM});
  EXPECT_EQ(first.notice_signal, SIGTERM);
  EXPECT_THAT(first.signals, IsEmpty());
  // timeout(1) signals the process, and then its group.
  first = Do(SignalReceived{SIGTERM});
  EXPECT_FALSE(first.notice_signal.has_value());
  EXPECT_THAT(first.signals, IsEmpty());
  now_ = now_ + absl::Seconds(2);
  EXPECT_THAT(Do(SignalReceived{SIGTERM}).signals, ElementsAre(SignalGroup{M(0), SIGTERM}));
  Preempt();
  EndPreemption("saved");
  const Effects last = End(0, {0, SIGTERM});
  EXPECT_FALSE(last.restart.has_value()) << "whoever sent it wants us to end";
  EXPECT_EQ(last.exit_code, kExitPreempted);
}

TEST_F(SupervisorTest, ANoticeThatNobodyHeedsIsPassedOn) {
  notice_signals_ = {SIGTERM};
  StartAll(2);
  Do(SignalReceived{SIGTERM});
  Preempt();
  EXPECT_THAT(EndPreemption("nobody_answered").signals,
              ElementsAre(SignalGroup{M(0), SIGTERM}, SignalGroup{M(1), SIGTERM}));
}

TEST_F(SupervisorTest, ATermGraceEndsWhatASigtermDoesNot) {
  term_grace_ = absl::Seconds(20);
  for (const bool notice : {false, true}) {
    if (notice) notice_signals_ = {SIGTERM};
    StartAll(1);
    Do(SignalReceived{SIGTERM});
    if (notice) Preempt();
    if (notice) EndPreemption("saved");
    EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(20));
    EXPECT_THAT(Pass(absl::Seconds(20)).signals,
                ElementsAre(SignalGroup{M(0), SIGTERM}, SignalGroup{M(0), SIGCONT}));
    EXPECT_THAT(Pass(absl::Seconds(5)).signals, ElementsAre(SignalGroup{M(0), SIGKILL}));
  }
}

TEST_F(SupervisorTest, ANoticeWithoutAStepIsPassedOnInTime) {
  notice_signals_ = {SIGTERM};
  StartAll(1);
  Do(SignalReceived{SIGTERM});
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(10));
  EXPECT_THAT(Pass(absl::Seconds(10)).signals, Contains(SignalGroup{M(0), SIGTERM}));
  EXPECT_TRUE(supervisor_->NextDeadline().is_infinite());
}

TEST_F(SupervisorTest, AHostThatLivesOnIsNotWaitedForAnyLonger) {
  on_preempt_ = OnPreempt::kWait;
  StartAll(1);
  Do(HostTold{true, absl::Seconds(60)});
  Preempt(absl::Seconds(60));
  EndPreemption("saved");
  EXPECT_FALSE(End(0, {0, 0}).restart.has_value());
  Do(HostTold{true, absl::Seconds(90)});
  EXPECT_EQ(supervisor_->NextDeadline(), now_ + absl::Seconds(90));
  EXPECT_TRUE(Do(HostTold{false, std::nullopt}).restart.has_value());
}

TEST_F(SupervisorTest, WorkThatWentOnBehindAWithdrawalIsNotDoneAgain) {
  on_preempt_ = OnPreempt::kRestart;
  StartAll(1);
  Do(HostTold{true, std::nullopt});
  Preempt();
  EndPreemption("saved");
  Do(HostTold{false, std::nullopt});
  checked_ = told_;
  const Effects last = End(0, {0, 0});
  EXPECT_FALSE(last.restart.has_value());
  EXPECT_EQ(last.sentences.back(), "all 1 succeeded in 0.0 s");
}

}  // namespace
}  // namespace lockstep::launch

#include "lockstep/observe/why_processes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/observe/observe_testing.h"

namespace lockstep::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(WhyProcesses, WithoutALauncherNothingIsKnown) {
  JobStatus job = StockJob();
  for (MemberStatus& member : job.members) member.process = ProcessState::kUnspecified;
  Diagnosis out;
  EXPECT_FALSE(TellProcesses(job, out));
  EXPECT_THAT(Diagnose(job).summary, HasSubstr("0 of 4 members have registered"));
}

TEST(WhyProcesses, ProgramsThatKnowNothingOfUsAreNoTrouble) {
  const Diagnosis out = Diagnose(StockJob());
  EXPECT_EQ(out.verdict, Verdict::kFine);
  EXPECT_THAT(out.summary, HasSubstr("4 of 4 processes run"));
}

TEST(WhyProcesses, TheOneThatFailedFirstStandsFirst) {
  JobStatus job = StockJob();
  for (const int32_t i : {1, 3}) {
    job.members[i].process = ProcessState::kFailed;
    job.members[i].process_since_ago_us = (i == 3 ? 9 : 2) * kSecond;
    job.members[i].why = i == 3 ? "its process was killed by SIGKILL 9s ago"
                                : "its process exited with code 1 2s ago";
  }
  job.members[2].process = ProcessState::kStopped;
  const Diagnosis out = Diagnose(job);
  EXPECT_EQ(out.verdict, Verdict::kTrouble);
  ASSERT_GE(out.findings.size(), 3U);
  EXPECT_THAT(out.findings[0], HasSubstr("task/3"));
  EXPECT_THAT(out.findings[0], HasSubstr("host-b"));
  EXPECT_THAT(out.findings[0], HasSubstr("killed by SIGKILL 9s ago"));
  EXPECT_THAT(out.findings[1], HasSubstr("task/1"));
  EXPECT_THAT(out.findings[2], HasSubstr("task/2"));
}

TEST(WhyProcesses, AStoppedOneAndOneThatWasNeverStartedAreNamed) {
  JobStatus job = StockJob();
  job.members[2].process = ProcessState::kStopped;
  job.members[2].why = "its process has been stopped (SIGSTOP) for 12s";
  job.members[3].process = ProcessState::kUnspecified;
  const Diagnosis out = Diagnose(job);
  EXPECT_EQ(out.verdict, Verdict::kWaiting);
  EXPECT_THAT(out.findings, ElementsAre(HasSubstr("No launcher has started task/3"),
                                        HasSubstr("stopped (SIGSTOP) for 12s")));
}

TEST(WhyProcesses, WhomTheRunGoesOnWithoutIsNoTrouble) {
  JobStatus job = StockJob();
  job.members[3].process = ProcessState::kLeftOut;
  job.members[3].why = "the run has been without it for 9s";
  const Diagnosis out = Diagnose(job);
  EXPECT_EQ(out.verdict, Verdict::kFine);
  EXPECT_THAT(out.summary, HasSubstr("3 of 3 processes run"));
  EXPECT_THAT(out.summary, HasSubstr("without task/3: the run is smaller"));
  EXPECT_THAT(out.findings, IsEmpty());
  EXPECT_THAT(out.suspects, IsEmpty());
}

TEST(WhyProcesses, OfWhomNoLauncherTellsAnyMoreNobodyKnowsWhetherTheyRun) {
  const Diagnosis out = Diagnose(StockJob(), {StackSnapshot{.silent = {0, 1, 3}}});
  EXPECT_EQ(out.verdict, Verdict::kWaiting);
  EXPECT_EQ(out.summary,
            "no launcher answers for task/0-1,3, whose processes were last reported running");
  EXPECT_THAT(out.places, ElementsAre("now: " + out.summary));
  EXPECT_THAT(out.advice, ElementsAre(HasSubstr("still runs on their hosts")));
  EXPECT_THAT(out.suspects, IsEmpty());
}

}  // namespace
}  // namespace lockstep::observe

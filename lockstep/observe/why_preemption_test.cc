#include "lockstep/observe/why_preemption.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/observe/observe_testing.h"
#include "lockstep/observe/why.h"

namespace lockstep::observe {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(WhyPreemption, SaysWhoIsWaitedForWhileAStepIsAgreedOn) {
  JobStatus job = PreemptedJob(PreemptionPhase::kHolding);
  job.preemption->members[3] = {.member = 3, .state = SyncState::kAsked};
  ExpectGolden("why_holding.txt", WhyText(job));
  EXPECT_EQ(Diagnose(job).verdict, Verdict::kWaiting);
}

TEST(WhyPreemption, SaysWhoHasNotSaved) {
  JobStatus job = PreemptedJob(PreemptionPhase::kAgreed);
  job.preemption->state.sync_step = 120;
  job.preemption->members[0].state = SyncState::kSaved;
  job.preemption->members[1].state = SyncState::kReached;
  ExpectGolden("why_agreed.txt", WhyText(job));
  EXPECT_EQ(Diagnose(job).verdict, Verdict::kWaiting);
}

TEST(WhyPreemption, OneThatIsFarAwayChangesNothing) {
  JobStatus job = PreemptedJob(PreemptionPhase::kPending);
  job.preemption->state.death_in_us = 7200 * kSecond;
  const Diagnosis why = Diagnose(job);
  EXPECT_EQ(why.verdict, Verdict::kFine);
  EXPECT_THAT(why.summary, HasSubstr("all is well"));
  EXPECT_THAT(why.findings, Contains(HasSubstr("Preemption 2 of task/1 (gce): 2h00m left")));
}

TEST(WhyPreemption, OneThatWentWrongIsTrouble) {
  ExpectGolden("why_partly_saved.txt", WhyText(EndedJob(PreemptionOutcome::kPartlySaved)));
  const std::vector<std::pair<PreemptionOutcome, const char*>> advice = {
      {PreemptionOutcome::kPartlySaved, "Use it only if a single member saves everything"},
      {PreemptionOutcome::kNotSaved, "why none of them saved"},
      {PreemptionOutcome::kCannotSaveInTime, "Save more often"},
      {PreemptionOutcome::kNoCommonStep, "same first step, same stride"},
      {PreemptionOutcome::kNobodyAnswered, "Open a Preemption in each member"}};
  for (const auto& [outcome, text] : advice) {
    const Diagnosis why = Diagnose(EndedJob(outcome));
    EXPECT_EQ(why.verdict, Verdict::kTrouble) << text;
    EXPECT_THAT(why.advice, Contains(HasSubstr(text)));
  }
}

TEST(WhyPreemption, OneBeforeTheAttemptBeganIsNoTrouble) {
  JobStatus job = EndedJob(PreemptionOutcome::kNobodyAnswered);
  job.state = AttemptState::kWaiting;
  EXPECT_EQ(Diagnose(job).verdict, Verdict::kWaiting);
  EXPECT_THAT(Diagnose(job).findings, Contains(HasSubstr("nobody_answered")));
}

TEST(WhyPreemption, OneThatNoProcessOfStockProgramsAnsweredIsTrouble) {
  JobStatus job = StockJob();
  job.preemption = EndedJob(PreemptionOutcome::kNobodyAnswered).preemption;
  const Diagnosis why = Diagnose(job);
  EXPECT_EQ(why.verdict, Verdict::kTrouble);
  EXPECT_EQ(why.summary, "preemption 2 ended without a checkpoint of all");
  EXPECT_THAT(why.advice, Contains(HasSubstr("Open a Preemption in each member")));
  for (MemberStatus& member : job.members) member.process = ProcessState::kEnded;
  EXPECT_EQ(Diagnose(job).verdict, Verdict::kTrouble);
}

TEST(WhyPreemption, OneThatEndedBeforeTheProcessesWereStartedIsNoTrouble) {
  JobStatus job = StockJob();
  job.preemption = EndedJob(PreemptionOutcome::kNobodyAnswered).preemption;
  for (MemberStatus& member : job.members) member.process_since_ago_us = kSecond;
  EXPECT_EQ(Diagnose(job).verdict, Verdict::kFine);
}

TEST(WhyPreemption, OneThatWentWellIsTold) {
  for (const PreemptionOutcome outcome :
       {PreemptionOutcome::kSaved, PreemptionOutcome::kSynced, PreemptionOutcome::kFinished,
        PreemptionOutcome::kCancelled}) {
    const Diagnosis why = Diagnose(EndedJob(outcome));
    EXPECT_EQ(why.verdict, Verdict::kFine);
    EXPECT_THAT(why.advice, IsEmpty());
    EXPECT_THAT(why.findings, Contains(HasSubstr("Preemption 2 of task/1 (gce) ended 3.0s ago")));
  }
}

TEST(WhyPreemption, SaysFromWhereToGoOnWhenTheJobIsOver) {
  JobStatus job = EndedJob(PreemptionOutcome::kSaved);
  job.state = AttemptState::kEnded;
  EXPECT_THAT(Diagnose(job).advice,
              Contains("Restart the members from the checkpoint of step 120."));
  job.state = AttemptState::kFailed;
  job.members[1].condition = MemberCondition::kLost;
  const Diagnosis why = Diagnose(job);
  EXPECT_EQ(why.summary, "attempt 1 failed");
  EXPECT_THAT(why.advice[0], HasSubstr("from the checkpoint of step 120"));
}

TEST(WhyPreemption, PrintsNothingThatATerminalWouldObey) {
  JobStatus job = EndedJob(PreemptionOutcome::kNotSaved);
  job.preemption->state.notices[0].source = "a\x1B[2Jb";
  EXPECT_THAT(WhyText(job), Not(HasSubstr("\x1B")));
  EXPECT_THAT(WhyJson(job), Not(HasSubstr("\x1B")));
}

}  // namespace
}  // namespace lockstep::observe

#include "lockstep/observe/member_groups.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/observe/observe_testing.h"
#include "lockstep/observe/status_text.h"
#include "lockstep/observe/tables.h"
#include "nlohmann/json.hpp"

namespace lockstep::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void Ended(MemberStatus& member, bool well) {
  member.process = well ? ProcessState::kEnded : ProcessState::kFailed;
  member.process_since_ago_us = 3 * kSecond;
  member.why =
      well ? "its process exited with code 0 3s ago" : "its process exited with code 7 3s ago";
}

JobStatus EndedWellJob() {
  JobStatus job = StockJob();
  for (MemberStatus& member : job.members) Ended(member, true);
  return job;
}

TEST(MemberGroups, ProcessesThatRunAreNeitherMissingNorWaitedFor) {
  const JobStatus job = StockJob();
  EXPECT_EQ(StandingOf(job), AttemptState::kRunning);
  EXPECT_EQ(StandingText(job), "4 processes run, none joined");
  EXPECT_FALSE(InTrouble(job));
  StatusReply status = Server();
  status.jobs = {job};
  for (const std::string& text : {StatusTable(status), JobsTable(status), MembersTable(job)}) {
    EXPECT_THAT(text, HasSubstr("4 processes run, none joined"));
    EXPECT_THAT(text, Not(HasSubstr("missing")));
    EXPECT_THAT(text, Not(HasSubstr("waiting")));
    EXPECT_THAT(text, Not(HasSubstr("has not joined")));
  }
  ExpectGolden("processes.txt", StatusTable(status));
}

TEST(MemberGroups, ProcessesThatEndedWithNoErrorEndedWell) {
  const JobStatus job = EndedWellJob();
  EXPECT_EQ(StandingOf(job), AttemptState::kEnded);
  EXPECT_EQ(StandingText(job), "4 processes ended well, none joined");
  EXPECT_FALSE(InTrouble(job));
  EXPECT_THAT(MembersTable(job), HasSubstr("its process exited with code 0 3s ago"));
}

TEST(MemberGroups, AProcessThatFailedStandsFirstAndIsTrouble) {
  JobStatus job = StockJob();
  Ended(job.members[2], false);
  job.members[3].process = ProcessState::kStopped;
  EXPECT_EQ(StandingOf(job), AttemptState::kFailed);
  EXPECT_EQ(StandingText(job),
            "1 process failed, 1 process is stopped, 2 processes run, none joined");
  EXPECT_TRUE(InTrouble(job));
  const auto groups = GroupsByNeed(job);
  EXPECT_EQ(groups.front().state, "process failed");
  EXPECT_EQ(groups.front().members.front()->index, 2);
  EXPECT_EQ(groups.front().SinceUs(job.members[2]), 3 * kSecond);
  EXPECT_EQ(groups.front().WhyText(job.members[2]), "its process exited with code 7 3s ago");
}

TEST(MemberGroups, WhatNoLauncherHasStartedIsMissing) {
  JobStatus job = StockJob();
  job.members[3].process = ProcessState::kUnspecified;
  EXPECT_EQ(StandingOf(job), AttemptState::kWaiting);
  EXPECT_EQ(StandingText(job), "1 missing, 3 processes run, none joined");
  job.members[3].process = ProcessState::kLeftOut;  // the run is smaller than the job
  EXPECT_EQ(StandingOf(job), AttemptState::kRunning);
  EXPECT_EQ(StandingText(job), "3 processes run, 1 left out, none joined");
}

TEST(MemberGroups, OnceAMemberHasComeTheOthersAreMissing) {
  JobStatus job = StockJob();
  job.members[0].condition = MemberCondition::kRegistering;
  EXPECT_EQ(StandingOf(job), AttemptState::kWaiting);
  EXPECT_EQ(StandingText(job), "3 missing, 1 registering");
  EXPECT_THAT(MembersTable(job), HasSubstr("has not joined"));
  job = StockJob();
  job.members[0].last_heard_ago_us = kSecond;  // it went away while it registered
  EXPECT_EQ(StandingText(job), "4 missing");
}

TEST(MemberGroups, WithoutALauncherMembersAreMissing) {
  JobStatus job = StockJob();
  for (MemberStatus& member : job.members) member.process = ProcessState::kUnspecified;
  EXPECT_EQ(StandingOf(job), AttemptState::kWaiting);
  EXPECT_EQ(StandingText(job), "4 missing");
}

TEST(MemberGroups, ForProgramsNothingChangesItsMeaning) {
  StatusReply status = Server();
  status.jobs = {StockJob()};
  const auto json = nlohmann::json::parse(JobsJson(status))["jobs"][0];
  EXPECT_EQ(json["state"], "waiting");
  EXPECT_EQ(json["members"]["missing"], 4);
  EXPECT_EQ(json["processes"], nlohmann::json({{"running", 4}}));
}

}  // namespace
}  // namespace lockstep::observe

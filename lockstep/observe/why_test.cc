#include "lockstep/observe/why.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/observe/member_groups.h"
#include "lockstep/observe/observe_testing.h"
#include "lockstep/observe/status_text.h"
#include "nlohmann/json.hpp"

namespace lockstep::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

JobStatus HealthyJob(int32_t size) {
  JobStatus job = {.job = "digits",
                   .size = size,
                   .attempt = 1,
                   .state = AttemptState::kRunning,
                   .started_ago_us = 600 * kSecond,
                   .grpc = "127.0.0.1:27002"};
  for (int32_t i = 0; i < size; ++i) {
    job.members.push_back(Member(i, MemberCondition::kConnected));
    job.members.back().host = "host" + std::to_string(i / 8);
    job.members.back().pid = 1000 + i;
    job.members.back().step = 100;
  }
  return job;
}

TEST(Why, TellsTheFirstThingThatWentWrongAndWhatFollowed) {
  ExpectGolden("why_broken.txt", WhyText(BrokenJob()));
  EXPECT_EQ(Diagnose(BrokenJob()).verdict, Verdict::kTrouble);
}

TEST(Why, TakesTheOldestErrorOfTheAttemptAsItsCause) {
  JobStatus job = HealthyJob(4);
  job.state = AttemptState::kFailed;
  job.attempt = 3;
  job.errors = {{.at_ago_us = 900 * kSecond,
                 .reason = "process_ended",
                 .message = "older",
                 .origin = "task/1#1",
                 .attempt = 2},
                {.at_ago_us = 9 * kSecond,
                 .reason = "process_ended",
                 .message = "first",
                 .origin = "task/1#2",
                 .attempt = 3},
                {.at_ago_us = 8 * kSecond,
                 .reason = "reported_error",
                 .message = "second",
                 .origin = "task/2#1",
                 .attempt = 3}};
  const Diagnosis why = Diagnose(job);
  ASSERT_THAT(why.findings, Not(IsEmpty()));
  EXPECT_THAT(why.findings[0], HasSubstr("9.0s ago, about task/1#2: first [process_ended]"));
  EXPECT_THAT(why.findings[1], HasSubstr("because of the same member, for the same reason"));
  EXPECT_THAT(why.advice[0], HasSubstr("end of that process's output"));
}

TEST(Why, NamesTheHostThatAllLostMembersRanOn) {
  JobStatus job = HealthyJob(24);
  job.state = AttemptState::kFailed;
  for (size_t i = 8; i < 16; ++i) job.members[i].condition = MemberCondition::kLost;
  job.errors = {{.at_ago_us = kSecond,
                 .reason = "heartbeat_timeout",
                 .message = "silent",
                 .origin = "task/8#1",
                 .attempt = 1}};
  const Diagnosis why = Diagnose(job);
  EXPECT_THAT(why.findings, ::testing::Contains("All 8 lost members ran on host1."));
  EXPECT_THAT(why.followed, ::testing::Contains("7 more members were lost: task/9-15."));
}

TEST(Why, AHostThatAllMembersRunOnIsNoNews) {
  JobStatus job = HealthyJob(4);
  job.state = AttemptState::kFailed;
  for (auto& member : job.members) {
    member.host = "vm";
    member.condition = MemberCondition::kLost;
  }
  const Diagnosis why = Diagnose(job);
  EXPECT_THAT(why.findings, Not(::testing::Contains(HasSubstr("ran on"))));
  EXPECT_THAT(why.advice, Not(::testing::Contains(HasSubstr("Check host"))));
}

TEST(Why, SaysThatNobodyHasCome) {
  JobStatus job = {.job = "digits",
                   .size = 4,
                   .attempt = 1,
                   .state = AttemptState::kWaiting,
                   .grpc = "127.0.0.1:27002"};
  for (int32_t i = 0; i < 4; ++i) job.members.push_back(Member(i, MemberCondition::kMissing));
  ExpectGolden("why_nobody.txt", WhyText(job));
}

TEST(Why, NamesWhoIsMissingAtTheStart) {
  JobStatus job = HealthyJob(64);
  job.state = AttemptState::kWaiting;
  for (size_t i = 0; i < 64; ++i) job.members[i].condition = MemberCondition::kRegistering;
  for (const int32_t i : {7, 11, 40, 41, 42}) {
    job.members[static_cast<size_t>(i)] = Member(i, MemberCondition::kMissing);
  }
  job.members[11].host = "host1";
  job.members[11].pid = 4711;
  ExpectGolden("why_start.txt", WhyText(job));
}

TEST(Why, FindsTwoGroupsThatWaitForEachOther) {
  JobStatus job = HealthyJob(4);
  job.barriers = {{.id = "step-100",
                   .counter = 0,
                   .opened_ago_us = 41 * kSecond,
                   .waiting = {0, 1},
                   .awaited = {2, 3}},
                  {.id = "evaluate",
                   .counter = 2,
                   .opened_ago_us = 40 * kSecond,
                   .waiting = {2, 3},
                   .awaited = {0, 1}}};
  job.barriers_open = 2;
  ExpectGolden("why_mismatch.txt", WhyText(job));
}

TEST(Why, TellsWhatTheMissingDoInstead) {
  JobStatus job = HealthyJob(4);
  job.members[3].step = 99;
  job.members[3].phase = "loading data";
  job.members[2].doing = "waits for key 'config/lr' for 12s";
  job.barriers = {{.id = "step-100",
                   .opened_ago_us = 41 * kSecond,
                   .deadline_in_us = 19 * kSecond,
                   .waiting = {0, 1},
                   .awaited = {2, 3}}};
  job.barriers_open = 1;
  job.key_waits = {
      {.key = "config/lr", .waiters = 1, .since_ago_us = 12 * kSecond, .members = {2}}};
  job.keys_awaited = 1;
  ExpectGolden("why_waiting.txt", WhyText(job));
}

TEST(Why, TellsOfSuspects) {
  JobStatus job = HealthyJob(4);
  job.members[1].condition = MemberCondition::kSuspect;
  job.members[1].why = "its process is stopped (SIGSTOP)";
  const Diagnosis why = Diagnose(job);
  EXPECT_EQ(why.verdict, Verdict::kWaiting);
  EXPECT_EQ(why.summary, "a member is suspect");
  EXPECT_THAT(why.findings[1], HasSubstr("task/1#1 (host0:1001), suspect"));
}

TEST(Why, SaysThatAllIsWell) {
  JobStatus job = HealthyJob(64);
  job.members[5].step = 98;
  EXPECT_EQ(WhyText(job),
            "job digits: all is well: 64 connected, at steps 98 to 100; no member waits\n");
  job.state = AttemptState::kEnded;
  for (MemberStatus& member : job.members) member.condition = MemberCondition::kLeft;
  EXPECT_EQ(Diagnose(job).summary, "attempt 1 ended successfully: 64 left");
  EXPECT_EQ(Diagnose(job).verdict, Verdict::kFine);
}

TEST(Why, ARecoverableJobGoesOn) {
  JobStatus job = HealthyJob(4);
  job.members[2].condition = MemberCondition::kLost;
  job.errors = {{.at_ago_us = kSecond,
                 .reason = "connection_lost",
                 .message = "gone",
                 .origin = "task/2#1",
                 .attempt = 1}};
  job.barriers = {{.id = "b", .opened_ago_us = kSecond, .waiting = {0}, .awaited = {1, 2, 3}}};
  const Diagnosis why = Diagnose(job);
  EXPECT_THAT(why.summary, HasSubstr("continues"));
  EXPECT_THAT(why.findings, ::testing::Contains(HasSubstr("barrier 'b' (use 0): 1 of 4")));
}

TEST(Why, IsShortForTenThousandOfEverything) {
  JobStatus job = HealthyJob(10000);
  std::vector<int32_t> awaited;
  for (int32_t i = 1; i < 10000; ++i) awaited.push_back(i);
  for (int i = 0; i < 256; ++i) {
    job.barriers.push_back({.id = "b" + std::to_string(i), .waiting = {0}, .awaited = awaited});
    job.key_waits.push_back({.key = "k" + std::to_string(i), .waiters = 1});
  }
  job.barriers_open = 10000;
  job.keys_awaited = 10000;
  const std::string text = WhyText(job);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 40) << text;
  EXPECT_THAT(text, HasSubstr("+9997 more open barriers"));
  EXPECT_THAT(text, HasSubstr("+9996 more: task/4-9999"));
}

TEST(Why, PrintsNothingThatATerminalWouldObey) {
  JobStatus job = HealthyJob(2);
  job.barriers = {{.id = "a\x1B[2Jb", .waiting = {0}, .awaited = {1}}};
  EXPECT_THAT(WhyText(job), Not(HasSubstr("\x1B")));
}

TEST(Why, ForPrograms) {
  const auto json = nlohmann::json::parse(WhyJson(BrokenJob()));
  EXPECT_EQ(json["verdict"], "trouble");
  EXPECT_EQ(json["summary"], "attempt 2 failed");
  EXPECT_GT(json["findings"].size(), 0u);
}

TEST(Why, UseA01_AProcessThatFailedAfterItsMemberHadLeftIsTrouble) {
  JobStatus job = HealthyJob(2);
  job.state = AttemptState::kEnded;
  for (MemberStatus& member : job.members) {
    member.condition = MemberCondition::kLeft;
    member.since_ago_us = 9 * kSecond;
    member.process = ProcessState::kEnded;
    member.process_since_ago_us = 8 * kSecond;
  }
  EXPECT_EQ(Diagnose(job).verdict, Verdict::kFine);
  job.members[1].process = ProcessState::kFailed;
  job.members[1].why = "its process exited with code 1";
  const Diagnosis why = Diagnose(job);
  EXPECT_EQ(why.verdict, Verdict::kTrouble);
  EXPECT_EQ(why.summary, "1 process failed; members: 2 left");
  EXPECT_TRUE(InTrouble(job));
  // That process was of the run before.
  job.members[1].process_since_ago_us = 100 * kSecond;
  EXPECT_EQ(Diagnose(job).verdict, Verdict::kFine);
}

TEST(Why, UseA01_AProcessThatFailedWhileOthersCameIsTrouble) {
  JobStatus job = HealthyJob(2);
  job.state = AttemptState::kWaiting;
  job.members[1] = Member(1, MemberCondition::kMissing);
  EXPECT_EQ(Diagnose(job).verdict, Verdict::kWaiting);
  job.members[1].process = ProcessState::kFailed;
  job.members[1].why = "its process exited with code 1 3.000s ago";
  EXPECT_EQ(Diagnose(job).verdict, Verdict::kTrouble);
  EXPECT_EQ(StandingOf(job), AttemptState::kFailed);
  EXPECT_EQ(StandingText(job), "1 missing, 1 connected, 1 process failed");
}

TEST(Why, NamesItsOwnCommandAndNoOther) {
  JobStatus job = BrokenJob();
  job.state = AttemptState::kRunning;
  EXPECT_EQ(WhyText(job).find("py-spy"), std::string::npos);
  JobStatus waiting = HealthyJob(2);
  waiting.barriers = {{.id = "b", .opened_ago_us = kSecond, .waiting = {0}, .awaited = {1}}};
  EXPECT_THAT(WhyText(waiting), HasSubstr("lockstep stacks digits"));
}

}  // namespace
}  // namespace lockstep::observe

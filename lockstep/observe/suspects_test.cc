#include "lockstep/observe/suspects.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/observe/observe_testing.h"
#include "lockstep/observe/why.h"
#include "nlohmann/json.hpp"

namespace lockstep::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<int32_t> SuspectsOf(const JobStatus& job,
                                const std::vector<StackSnapshot>& snapshots = {}) {
  std::vector<int32_t> members;
  for (const Suspect& suspect : FindSuspects(job, snapshots)) members.push_back(suspect.member);
  return members;
}

StackSnapshot Hang(int32_t odd, std::string because = "", int64_t ago_us = 0) {
  StackSnapshot snapshot = {.because = std::move(because), .ago_us = ago_us};
  for (int32_t i = 0; i < 4; ++i)
    snapshot.processes.push_back(i == odd ? Loads(i) : InAllReduce(i));
  return snapshot;
}

void Fail(JobStatus& job, int32_t member, int64_t ago_us) {
  job.members[member].process = ProcessState::kFailed;
  job.members[member].process_since_ago_us = ago_us;
  job.members[member].why = "its process was killed by SIGKILL 9s ago";
}

void Exit(JobStatus& job, int32_t member, int64_t ago_us) {
  Fail(job, member, ago_us);
  job.members[member].why = "its process exited with code 1 9s ago";
}

// Three ranks wait for the key of that one.
void AwaitKeyOf(JobStatus& job, int32_t rank, int64_t since_ago_us) {
  StoreStatus& store = job.torch_store.emplace();
  store.connections = 4;
  StoreWait wait = {.key = "/default_pg/0//cpu//0/" + std::to_string(rank),
                    .waiters = 3,
                    .since_ago_us = since_ago_us,
                    .rank = rank};
  for (int32_t i = 0; i < 4; ++i) {
    if (i != rank) wait.first_waiters.push_back({.peer = "127.0.0.1:1", .rank = i});
  }
  store.awaited = {wait};
}

TEST(Suspects, TheProcessThatFailedFirst) {
  JobStatus job = StockJob();
  Fail(job, 3, 9 * kSecond);
  Fail(job, 0, 8 * kSecond);
  const auto suspects = FindSuspects(job, {});
  ASSERT_EQ(suspects.size(), 1u);
  EXPECT_EQ(suspects[0].member, 3);
  EXPECT_EQ(suspects[0].host, "host-b");
  EXPECT_EQ(suspects[0].pid, 1003);
  EXPECT_EQ(suspects[0].since_ago_us, 9 * kSecond);
  EXPECT_EQ(SuspectText(suspects[0]),
            "task/3 (pid 1003 on host-b), for 9.0s: its process was killed by SIGKILL 9s ago");
}

TEST(Suspects, TheStoppedOneWhoseStopOthersFailedBy) {
  JobStatus job = StockJob();
  job.members[1].process = ProcessState::kStopped;
  job.members[1].process_since_ago_us = 20 * kSecond;
  Fail(job, 0, 5 * kSecond);
  EXPECT_THAT(SuspectsOf(job), ElementsAre(1));
  // Stopped after the failure: that is another matter.
  job.members[1].process_since_ago_us = 2 * kSecond;
  EXPECT_THAT(SuspectsOf(job), ElementsAre(0));
}

TEST(Suspects, TheOneThatEndedWellBeforeTheOthersFailed) {
  JobStatus job = StockJob();
  job.members[1].process = ProcessState::kEnded;
  job.members[1].process_since_ago_us = 10 * kSecond;
  job.members[1].why = "its process exited with code 0 10s ago";
  for (const int32_t i : {0, 2, 3}) Exit(job, i, 9 * kSecond - i);
  const auto suspects = FindSuspects(job, {});
  ASSERT_EQ(suspects.size(), 1U);
  EXPECT_EQ(suspects[0].member, 1);
  EXPECT_EQ(suspects[0].evidence,
            "its process exited with code 0 10s ago, and then the others failed, which may have "
            "needed it");
  // At the end of a run one fails after the others have ended: by itself.
  for (const int32_t i : {2, 3}) job.members[i].process = ProcessState::kEnded;
  EXPECT_THAT(SuspectsOf(job), ElementsAre(0));
  // It ended long before, or after.
  for (const int32_t i : {2, 3}) Exit(job, i, 9 * kSecond - i);
  job.members[1].process_since_ago_us = 100 * kSecond;
  EXPECT_THAT(SuspectsOf(job), ElementsAre(0));
  job.members[1].process_since_ago_us = 8 * kSecond;
  EXPECT_THAT(SuspectsOf(job), ElementsAre(0));
  // A signal needs nobody.
  job.members[1].process_since_ago_us = 10 * kSecond;
  Fail(job, 0, 9 * kSecond);
  EXPECT_THAT(SuspectsOf(job), ElementsAre(0));
}

TEST(Suspects, OfLooksNobodyWhenAllHaveEnded) {
  JobStatus job = StockJob();
  const std::vector<StackSnapshot> snapshots = {Hang(1, "barrier 'x' timed out", 30 * kSecond)};
  EXPECT_THAT(SuspectsOf(job, snapshots), ElementsAre(1));
  for (MemberStatus& member : job.members) member.process = ProcessState::kEnded;
  EXPECT_THAT(SuspectsOf(job, snapshots), IsEmpty());
}

TEST(Suspects, WhoTheFirstErrorOfTheAttemptIsAbout) {
  const auto suspects = FindSuspects(BrokenJob(), {});
  ASSERT_EQ(suspects.size(), 1u);
  EXPECT_EQ(suspects[0].name, "task/2#1");
  EXPECT_EQ(suspects[0].since_ago_us, 340000);
  // All is well again.
  JobStatus job = BrokenJob();
  job.state = AttemptState::kRunning;
  for (auto& member : job.members) member.condition = MemberCondition::kConnected;
  job.barriers.clear();
  EXPECT_THAT(SuspectsOf(job), IsEmpty());
}

TEST(Suspects, WhoseKeyOfTorchsStoreIsAwaited) {
  JobStatus job = StockJob();
  AwaitKeyOf(job, 3, 12 * kSecond);
  const auto suspects = FindSuspects(job, {Hang(3)});
  ASSERT_EQ(suspects.size(), 1u);
  EXPECT_EQ(suspects[0].member, 3);
  EXPECT_EQ(suspects[0].evidence,
            "3 wait for key '/default_pg/0//cpu//0/3' of torch's store, which it has not set");
  EXPECT_EQ(suspects[0].stack_place, "runs load, loader.py:31");
  EXPECT_THAT(SuspectText(suspects[0]), HasSubstr("; it runs load, loader.py:31"));
  // It cannot set it any more.
  job.members[3].process = ProcessState::kEnded;
  job.members[3].why = "its process exited with code 0 10s ago";
  ASSERT_EQ(SuspectsOf(job), std::vector<int32_t>{3});
  EXPECT_THAT(FindSuspects(job, {})[0].evidence,
              HasSubstr("which it has not set, and its process exited with code 0 10s ago"));
  // A moment is no hang.
  AwaitKeyOf(job, 3, kSecond / 10);
  EXPECT_THAT(SuspectsOf(job), IsEmpty());
}

TEST(Suspects, WhoIsAwaitedAndWaitsItselfIsHeldUpByAnother) {
  JobStatus job = StockJob();
  AwaitKeyOf(job, 3, 12 * kSecond);
  job.torch_store->awaited[0].first_waiters = {{.rank = 1}, {.rank = 2}};
  job.torch_store->awaited.push_back({.key = "/x/rank_1",
                                      .waiters = 1,
                                      .since_ago_us = 12 * kSecond,
                                      .first_waiters = {{.rank = 0}},
                                      .rank = 1});
  EXPECT_THAT(SuspectsOf(job), ElementsAre(3));
}

TEST(Suspects, WhoIsNotAtABarrierOfTheStore) {
  JobStatus job = StockJob();
  AwaitKeyOf(job, 2, 12 * kSecond);
  StoreWait& wait = job.torch_store->awaited[0];
  wait.rank.reset();
  wait.barrier_size = 4;
  wait.arrived = 3;
  EXPECT_THAT(SuspectsOf(job), ElementsAre(2));
  // Of one of them nobody knows who it is.
  wait.first_waiters[1].rank.reset();
  EXPECT_THAT(SuspectsOf(job), IsEmpty());
}

TEST(Suspects, AProcessThatFailedBeatsWhatIsWaitedForAtTheStore) {
  JobStatus job = StockJob();
  AwaitKeyOf(job, 3, 12 * kSecond);
  Fail(job, 1, 10 * kSecond);
  EXPECT_THAT(SuspectsOf(job), ElementsAre(1));
  // The sentences tell of it too.
  const Diagnosis why = Diagnose(job);
  EXPECT_EQ(why.verdict, Verdict::kTrouble);
  EXPECT_EQ(why.summary, "a process failed");
  EXPECT_THAT(why.findings, ::testing::Contains(HasSubstr("of torch's store is not set")));
}

TEST(Suspects, WhoIsAwaitedAtABarrierByTheMost) {
  JobStatus job = StockJob();
  job.state = AttemptState::kRunning;
  for (auto& member : job.members) member.condition = MemberCondition::kConnected;
  job.barriers = {{.id = "a", .opened_ago_us = 5 * kSecond, .waiting = {0, 1, 2}, .awaited = {3}},
                  {.id = "b", .opened_ago_us = 6 * kSecond, .waiting = {3}, .awaited = {0, 1, 2}}};
  EXPECT_THAT(SuspectsOf(job), ElementsAre(3));
  job.barriers[0] = {.id = "a", .opened_ago_us = 5 * kSecond, .waiting = {0, 1}, .awaited = {2, 3}};
  job.barriers[1] = {.id = "b", .opened_ago_us = 6 * kSecond, .waiting = {2, 3}, .awaited = {0, 1}};
  EXPECT_THAT(SuspectsOf(job), IsEmpty());
}

TEST(Suspects, WhoWasNeverStartedAndWhoHasNotCome) {
  JobStatus job = StockJob();
  job.members[2].process = ProcessState::kUnspecified;
  const auto suspects = FindSuspects(job, {});
  ASSERT_EQ(suspects.size(), 1u);
  EXPECT_EQ(suspects[0].evidence, "no launcher has started it");
  // Of a job with members it counts that it is no member.
  for (const int32_t i : {0, 1, 2}) job.members[i].condition = MemberCondition::kRegistering;
  job.started_ago_us = 30 * kSecond;
  EXPECT_THAT(SuspectsOf(job), ElementsAre(3));
}

TEST(Suspects, WhoIsNotWhereTheOthersWaitInTheirCode) {
  const auto suspects = FindSuspects(StockJob(), {Hang(2)});
  ASSERT_EQ(suspects.size(), 1u);
  EXPECT_EQ(SuspectText(suspects[0]),
            "task/2 (pid 1002 on host-b), for 41s: it runs load, loader.py:31, while 3 of 4 wait "
            "in all_reduce, train.py:88");
  const Diagnosis why = Diagnose(StockJob(), {Hang(2)});
  EXPECT_EQ(why.verdict, Verdict::kWaiting);
  EXPECT_EQ(why.summary, "the others probably wait for task/2");
}

TEST(Suspects, OfTwoLooksOnlyWhatBothSay) {
  StackSnapshot before = Hang(2);
  before.ago_us = kSecond;
  EXPECT_THAT(SuspectsOf(StockJob(), {Hang(2), before}), ElementsAre(2));
  before = Hang(1);
  before.ago_us = kSecond;
  EXPECT_THAT(SuspectsOf(StockJob(), {Hang(2), before}), IsEmpty());
}

TEST(Suspects, WhatWasSeenWhenSomethingTimedOutCountsWhenNothingIsSeenNow) {
  const StackSnapshot then = Hang(2, "barrier 'x' timed out", 12 * kSecond);
  const auto suspects = FindSuspects(StockJob(), {then});
  ASSERT_EQ(suspects.size(), 1u);
  EXPECT_EQ(suspects[0].member, 2);
  EXPECT_EQ(suspects[0].since_ago_us, 53 * kSecond);
  EXPECT_THAT(suspects[0].evidence,
              ::testing::StartsWith("when barrier 'x' timed out 12s ago: it runs load"));
  EXPECT_THAT(Diagnose(StockJob(), {then}).places,
              ElementsAre("when barrier 'x' timed out 12s ago: 3 of 4 wait in all_reduce, "
                          "train.py:88; task/2 (pid 1002 on host-b) runs load, loader.py:31"));
}

TEST(Suspects, WhomOthersWaitedForWhenTheyGaveUp) {
  // Who gives up goes on, and then its stack tells nothing any more.
  StackSnapshot then = Hang(3, "barrier 'x' timed out", 12 * kSecond);
  for (ProcessLocation& process : then.processes) process.still_us = 0;
  JobStatus job = StockJob();
  Exit(job, 0, 11 * kSecond);
  EXPECT_THAT(SuspectsOf(job, {then}), ElementsAre(0));
  then.awaited = {3};
  const auto suspects = FindSuspects(job, {then});
  ASSERT_EQ(suspects.size(), 1u);
  EXPECT_EQ(SuspectText(suspects[0]),
            "task/3 (pid 1003 on host-b), for 12s: others waited for it 12s ago, when this "
            "happened: barrier 'x' timed out; it runs load, loader.py:31");
  then.awaited = {0, 1, 3};
  EXPECT_THAT(SuspectsOf(job, {then}), ElementsAre(0));
}

TEST(Suspects, WhoFailedSoonAfterATimeOutFailedByIt) {
  JobStatus job = StockJob();
  Exit(job, 0, 10 * kSecond);
  EXPECT_THAT(SuspectsOf(job, {Hang(2, "barrier 'x' timed out", 12 * kSecond)}), ElementsAre(2));
  // The odd one itself failed, or one was killed while it waited.
  EXPECT_THAT(SuspectsOf(job, {Hang(0, "task/1 had not moved for 8s", 12 * kSecond)}),
              ElementsAre(0));
  job.members[0].why = "its process was killed by SIGKILL 10s ago";
  EXPECT_THAT(SuspectsOf(job, {Hang(2, "barrier 'x' timed out", 12 * kSecond)}), ElementsAre(0));
  Exit(job, 0, 10 * kSecond);
  // Long before, or after it: the failure is a matter of its own.
  EXPECT_THAT(SuspectsOf(job, {Hang(2, "barrier 'x' timed out", 300 * kSecond)}), ElementsAre(0));
  EXPECT_THAT(SuspectsOf(job, {Hang(2, "barrier 'x' timed out", kSecond)}), ElementsAre(0));
}

TEST(Suspects, ATrainingThatGoesOnHasNoneAndOneThatNothingTellsOfAccusesNobody) {
  EXPECT_THAT(SuspectsOf(StockJob()), IsEmpty());
  JobStatus job = StockJob();
  job.torch_store = {.connections = 4,
                     .awaited = {{.key = "x", .waiters = 4, .since_ago_us = 9 * kSecond}}};
  EXPECT_THAT(SuspectsOf(job), IsEmpty());
  EXPECT_THAT(WhyText(job), HasSubstr("no suspect: not enough evidence"));
}

TEST(Suspects, ForPrograms) {
  const auto json = nlohmann::json::parse(WhyJson(StockJob(), {Hang(2)}));
  ASSERT_EQ(json["suspects"].size(), 1u);
  EXPECT_EQ(json["suspects"][0],
            (nlohmann::json{{"member", 2},
                            {"name", "task/2"},
                            {"host", "host-b"},
                            {"pid", 1002},
                            {"since_ago_us", 41 * kSecond},
                            {"evidence",
                             "it runs load, loader.py:31, while 3 of 4 wait in all_reduce, "
                             "train.py:88"},
                            {"stack_place", "runs load, loader.py:31"}}));
  EXPECT_EQ(nlohmann::json::parse(WhyJson(StockJob()))["suspects"].size(), 0u);
}

}  // namespace
}  // namespace lockstep::observe

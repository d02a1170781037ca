#include "lockstep/observe/store_text.h"

#include "gmock/gmock.h"
#include "lockstep/observe/observe_testing.h"
#include "lockstep/observe/status_text.h"

namespace lockstep::observe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Three of four ranks wait for what rank 3 has to set, whose process was started.
JobStatus TorchJob() {
  JobStatus job = {.job = "digits",
                   .size = 4,
                   .attempt = 1,
                   .state = AttemptState::kWaiting,
                   .grpc = "127.0.0.1:27002",
                   .store = "127.0.0.1:27003"};
  for (int32_t i = 0; i < 4; ++i) {
    job.members.push_back(Member(i, MemberCondition::kMissing));
    job.members.back().host = "host7";
    job.members.back().pid = 4700 + i;
  }
  job.torch_store = StoreStatus{
      .attempt = 2,
      .connections = 3,
      .keys = 4,
      .waits = 3,
      .keys_awaited = 1,
      .awaited = {
          {.key = "/default_pg/0//cpu//0/3",
           .waiters = 3,
           .since_ago_us = 12 * kSecond,
           .first_waiters = {{.peer = "127.0.0.1:40000", .rank = 0, .since_ago_us = 12 * kSecond},
                             {.peer = "127.0.0.1:40001", .rank = 1, .since_ago_us = 11 * kSecond},
                             {.peer = "127.0.0.1:40002", .since_ago_us = 11 * kSecond}},
           .rank = 3}}};
  return job;
}

TEST(StoreText, SaysWhichRanksWaitForWhoseKey) {
  EXPECT_EQ(StoreText(TorchJob()),
            "  torch store 127.0.0.1:27003, attempt 2: 3 connections, 4 keys, 3 waits\n"
            "    key '/default_pg/0//cpu//0/3', probably of rank 3, task/3 (host7:4703), is not "
            "set: 3 waiting, the first for 12s: ranks 0-1, 127.0.0.1:40002\n");
}

TEST(StoreText, SaysHowManyAreAtABarrierAndCountsTheRest) {
  JobStatus job = TorchJob();
  job.torch_store->awaited = {{.key = "/done",
                               .waiters = 40,
                               .since_ago_us = kSecond,
                               .first_waiters = {{.peer = "h:1", .rank = 2}},
                               .barrier_size = 64,
                               .arrived = 40}};
  job.torch_store->keys_awaited = 5;
  EXPECT_THAT(StoreText(job),
              HasSubstr("barrier at key '/done': 40 of 64 arrived, the first for 1.0s: rank 2, +39 "
                        "more\n    +4 more awaited keys, 5 in all\n"));
}

TEST(StoreText, IsNothingWhileNobodyUsesIt) {
  JobStatus job = TorchJob();
  job.torch_store = StoreStatus{.attempt = 1};
  EXPECT_EQ(StoreText(job), "");
  EXPECT_FALSE(OnlyTorch(job));
}

TEST(StoreText, AJobOfTorchIsDiagnosedByItsStore) {
  const Diagnosis diagnosis = Diagnose(TorchJob());
  EXPECT_EQ(diagnosis.verdict, Verdict::kWaiting);
  EXPECT_EQ(diagnosis.summary, "3 wait at torch's store for rank 3");
  EXPECT_THAT(diagnosis.findings,
              ElementsAre("Key '/default_pg/0//cpu//0/3' of torch's store is not set; "
                          "probably rank 3, task/3 (host7:4703) should set it. 3 wait for it, the "
                          "first for 12s: ranks 0-1, 127.0.0.1:40002."));
  EXPECT_THAT(diagnosis.advice, ElementsAre(HasSubstr("Check whether rank 3 was started")));
}

TEST(StoreText, AJobThatHasMoreThanTorchIsToldOfItsStoreAsWell) {
  JobStatus job = TorchJob();
  job.state = AttemptState::kRunning;
  for (MemberStatus& member : job.members) member.condition = MemberCondition::kConnected;
  const Diagnosis diagnosis = Diagnose(job);
  EXPECT_THAT(diagnosis.findings, testing::Contains(HasSubstr("of torch's store is not set")));
}

TEST(StoreText, NobodyWhoWaitsIsFine) {
  JobStatus job = TorchJob();
  job.torch_store->awaited.clear();
  job.torch_store->waits = job.torch_store->keys_awaited = 0;
  EXPECT_EQ(Diagnose(job).verdict, Verdict::kFine);
  EXPECT_THAT(Diagnose(job).summary, HasSubstr("3 connections to torch's store"));
}

TEST(StoreText, ObeysNoBytesOfAKey) {
  JobStatus job = TorchJob();
  job.torch_store->awaited[0].key = "/x\n\x1B[2J";
  EXPECT_THAT(StoreText(job), Not(HasSubstr("\x1B")));
}

}  // namespace
}  // namespace lockstep::observe

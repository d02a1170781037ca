// Members that come back as another process, in a job that goes on without them: the others reach
// the new one, and the old one, should it live, disturbs nobody.
#include <signal.h>

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/faulty_job.h"

namespace lockstep::faults {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Of job[`member`], until it has been told that `lost` is lost.
void AwaitLossOf(FaultyJob& job, int member, int lost) {
  const std::string answer = job[member].Ask(absl::StrCat("recv 1 never ", lost, " 1 64"));
  EXPECT_THAT(answer, StartsWith("error"));
  EXPECT_THAT(answer, HasSubstr("peer_lost"));
  EXPECT_THAT(answer, HasSubstr(FaultyJob::NameOf(lost)));
}

void AwaitReachedByAll(FaultyJob& job, int member) {
  for (int from = 0; from < job.size(); ++from) {
    if (from != member) job.AwaitReached(from, member);
  }
}

void TransferAmongAll(FaultyJob& job) {
  for (int from = 0; from < job.size(); ++from) {
    for (int to = 0; to < job.size(); ++to) {
      if (from != to) job.Transfer(from, to);
    }
  }
}

class RendezvousReturn : public testing::TestWithParam<bool> {
 protected:
  bool by_memory() const { return GetParam(); }
};

TEST_P(RendezvousReturn, WhoWasKilledIsReachedAgain) {
  FaultyJob job(3);
  job.Begin(by_memory());
  // Who dials whom depends on the order of members; 2 has had nothing to do with 1 so far.
  job.Transfer(0, 1);
  job.Transfer(1, 0);
  for (int life = 2; life <= 4; ++life) {
    job[1].Signal(SIGKILL);
    AwaitLossOf(job, 0, 1);
    AwaitLossOf(job, 2, 1);
    job.Replace(1, by_memory());
    AwaitReachedByAll(job, 1);
    TransferAmongAll(job);
  }
  for (int i = 0; i < job.size(); ++i) {
    job[i].Expect("close 1");
    job.AwaitNothingHeld(i);
  }
}

TEST_P(RendezvousReturn, WhoIsBackBeforeAnybodyTriedToReachItIsReached) {
  FaultyJob job(2);
  job.Begin(by_memory());
  job.Transfer(0, 1);
  job.Transfer(1, 0);
  job[0].Signal(SIGKILL);
  // Until its connection is closed, the server refuses another process in its place.
  job[0].Wait();
  // The first words of its successor may come before the news that it died.
  job.Replace(0, by_memory());
  const std::string sent = job[0].Ask("send 1 first 1 77 100000");
  ASSERT_THAT(sent, StartsWith("ok"));
  // The end of the one before may be told first.
  std::string received;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  do {
    ASSERT_LT(std::chrono::steady_clock::now(), until) << received;
    received = job[1].Ask("recv 1 first 0 77 100000");
    ASSERT_THAT(received, AnyOf(StartsWith("ok"), HasSubstr("peer_lost")));
  } while (!received.starts_with("ok"));
  job[1].Expect("drop");
  job.AwaitReached(1, 0);
  TransferAmongAll(job);
}

TEST_P(RendezvousReturn, TheOneBeforeDisturbsNobodyWhenItWakes) {
  FaultyJob job(3, absl::Seconds(1));
  job.Begin(by_memory());
  TransferAmongAll(job);
  job[1].Signal(SIGSTOP);
  AwaitLossOf(job, 0, 1);
  AwaitLossOf(job, 2, 1);
  const auto before = job.Replace(1, by_memory());
  AwaitReachedByAll(job, 1);
  TransferAmongAll(job);
  before->Signal(SIGCONT);
  // It learns that it is not the member any more.
  const std::string answer = before->Ask("recv 1 never 0 1 64");
  EXPECT_THAT(answer, StartsWith("error"));
  EXPECT_THAT(before->Ask("send 1 x 0 1 100000"), StartsWith("error"));
  TransferAmongAll(job);
}

INSTANTIATE_TEST_SUITE_P(, RendezvousReturn, testing::Bool(),
                         [](const auto& test) { return test.param ? "ByMemory" : "ByNetwork"; });

}  // namespace
}  // namespace lockstep::faults

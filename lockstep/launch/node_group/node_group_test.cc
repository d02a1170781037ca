#include "lockstep/launch/node_group/node_group.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/limits.h"
#include "lockstep/launch/node_group/node_group_suite_test.h"

namespace lockstep::node_group {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(NodeGroupTest, AllBeginTogetherWithRanksCountedThrough) {
  Come(7);
  EXPECT_THAT(nodes_[7].told, IsEmpty());
  template_.processes = 3;
  Come(5);
  ASSERT_EQ(nodes_[7].told.size(), 1U);
  EXPECT_EQ(nodes_[7].last(), (Instruction{.kind = Kind::kBegin,
                                           .number = 1,
                                           .attempt = 1,
                                           .rank = 0,
                                           .nodes = 2,
                                           .first = 0,
                                           .size = 5}));
  EXPECT_EQ(nodes_[5].last().first, 2) << "it came second";
  EXPECT_EQ(nodes_[5].last().rank, 1);
}

TEST_F(NodeGroupTest, Finding20_SizesOfNodesDoNotOverflow) {
  template_.processes = std::numeric_limits<int32_t>::max();
  Come(7);
  EXPECT_THAT(nodes_[7].refusal, HasSubstr("members_max"));
  template_.processes = kMembersMax - 1;
  Come(7);
  EXPECT_EQ(nodes_[7].refusal, "");
  template_.processes = 2;
  Come(5);
  EXPECT_THAT(nodes_[5].refusal, HasSubstr("would have 131073 processes"));
  EXPECT_THAT(nodes_[7].told, IsEmpty());
}

TEST_F(NodeGroupTest, Finding19_WhoseLinkBrokeStillCountsAmongTheMembers) {
  template_.processes = kMembersMax;
  Come(1, /*rank=*/0);
  Die(1);
  Come(2);
  EXPECT_THAT(nodes_[2].refusal, HasSubstr("members_max"));
  Poll(1);
  EXPECT_THAT(nodes_[1].told, IsEmpty());
  // Its successor takes its place.
  Die(1);
  Come(3, /*rank=*/0);
  EXPECT_EQ(nodes_[3].refusal, "");
}

TEST_F(NodeGroupTest, EachIsToldTheAddressesOfAllMembers) {
  template_.addresses = {"b:1", "b:2"};
  Come(1, /*rank=*/1);
  template_.addresses = {"a:1", "a:2"};
  Come(2, /*rank=*/0);
  const std::vector<std::string> all = {"a:1", "a:2", "b:1", "b:2"};
  EXPECT_EQ(nodes_[1].last().addresses, all);
  EXPECT_EQ(nodes_[2].last().addresses, all);
}

TEST_F(NodeGroupTest, AddressesThatNotAllHaveAreToldToNobody) {
  template_.addresses = {"a:1", "a:2"};
  Come(1);
  template_.addresses = {"b:1"};  // of two processes
  Come(2);
  EXPECT_EQ(nodes_[1].last().kind, Kind::kBegin);
  EXPECT_THAT(nodes_[1].last().addresses, IsEmpty());
}

TEST_F(NodeGroupTest, AddressesThatNotAllReachAreToldToNobody) {
  template_.addresses = {"127.0.0.1:1", "127.0.0.1:2"};
  Come(1);
  template_.addresses = {"10.0.0.7:1", "10.0.0.7:2"};
  Come(2);
  EXPECT_THAT(nodes_[2].last().addresses, IsEmpty());
}

TEST_F(NodeGroupTest, AddressesOfTooManyMembersAreToldToNobody) {
  template_.processes = kAddressedMembersMax / 2 + 1;
  template_.addresses.assign(static_cast<size_t>(template_.processes), "a:1");
  Come(1);
  Come(2);
  EXPECT_EQ(nodes_[2].last().kind, Kind::kBegin);
  EXPECT_THAT(nodes_[2].last().addresses, IsEmpty());
}

TEST_F(NodeGroupTest, RanksThatAreAskedForAreGiven) {
  Come(1, 1);
  Come(2, 0);
  EXPECT_EQ(nodes_[1].last().rank, 1);
  EXPECT_EQ(nodes_[2].last().rank, 0);
  EXPECT_EQ(nodes_[1].last().first, 2);
}

TEST_F(NodeGroupTest, AFailureIsToldToAllAndTheNextAttemptWaitsForTheLastProcess) {
  template_.max_restarts = 1;
  Come(1);
  Come(2);
  Fail(2);
  for (const uint64_t id : {1, 2}) {
    EXPECT_EQ(nodes_[id].last().kind, Kind::kCalledOff);
    EXPECT_TRUE(nodes_[id].last().another);
    EXPECT_THAT(nodes_[id].last().why,
                HasSubstr("node 1 on host-2 (lockstep run, pid 102): task/1"));
  }
  Over(2, 137);
  EXPECT_EQ(Begun(2), 1) << "node 0 has processes that still run";
  Over(1, 143);
  EXPECT_EQ(nodes_[1].last().kind, Kind::kBegin);
  EXPECT_EQ(nodes_[1].last().attempt, 2);
  EXPECT_EQ(nodes_[1].last().failures, 1);
  EXPECT_EQ(nodes_[1].last().rank, 0) << "as before";
  Fail(1);
  EXPECT_FALSE(nodes_[2].last().another);
  Over(1, 137);
  Over(2, 1);
  for (const uint64_t id : {1, 2}) {
    EXPECT_EQ(nodes_[id].last().kind, Kind::kEnded);
    EXPECT_EQ(nodes_[id].last().exit_code, 137);
  }
  EXPECT_TRUE(group_.empty());
}

TEST_F(NodeGroupTest, SuccessIsWhenAllHaveSucceeded) {
  Come(1);
  Come(2);
  Over(1);
  EXPECT_EQ(nodes_[1].last().kind, Kind::kBegin);
  Over(2);
  EXPECT_EQ(nodes_[1].last(), (Instruction{.kind = Kind::kEnded,
                                           .number = 2,
                                           .attempt = 1,
                                           .exit_code = 0,
                                           .why = "all 2 nodes succeeded"}));
  // The next run begins anew.
  Come(3);
  Come(4);
  EXPECT_EQ(nodes_[3].last().attempt, 1);
}

TEST_F(NodeGroupTest, WhoIsDoneIsNeededAgainWhenAnotherFails) {
  template_.max_restarts = 1;
  Come(1);
  Come(2);
  Over(1);
  Fail(2);
  Over(2, 137);
  EXPECT_EQ(Begun(1), 2);
  EXPECT_EQ(Begun(2), 2);
}

TEST_F(NodeGroupTest, AnEndThatNobodyCalledAFailureGivesItsExitCode) {
  Come(1);
  Come(2);
  Over(1, 75);
  Over(2, 0);
  EXPECT_EQ(nodes_[2].last().exit_code, 75);
}

TEST_F(NodeGroupTest, ALostNodeIsReplacedWhereAllAreNeeded) {
  template_.max_restarts = 1;
  Come(1, 0);
  Come(2, 1);
  Die(2);
  Pass(absl::Seconds(2));
  EXPECT_EQ(nodes_[1].last().kind, Kind::kCalledOff);
  EXPECT_THAT(nodes_[1].last().why, HasSubstr("node 1 on host-2 (lockstep run, pid 102) is gone"));
  Over(1, 143);
  Pass(absl::Seconds(60));
  EXPECT_EQ(Begun(1), 1);
  EXPECT_THAT(nodes_[1].waits.back(),
              HasSubstr("node 1 of 2 have not come; there: node 0 on host-1"));
  Come(3, 1);
  EXPECT_EQ(Begun(1), 2);
  EXPECT_EQ(nodes_[3].last().attempt, 2);
}

TEST_F(NodeGroupTest, UseA08_WhoseLinkBrokeIsTheCauseAndNotWhoFailedByIt) {
  template_.max_restarts = 1;
  Come(1, 0);
  Come(2, 1);
  Die(2);
  Fail(1);  // within the grace, by the connections that are gone
  EXPECT_EQ(nodes_[1].last().kind, Kind::kCalledOff);
  EXPECT_THAT(
      nodes_[1].last().why,
      testing::StartsWith("node 1 on host-2 (lockstep run, pid 102) is gone: its connection broke; "
                          "then node 0 on host-1"));
  Over(1, 1);
  Come(3, 1);
  EXPECT_EQ(Begun(1), 2);
  EXPECT_EQ(nodes_[1].last().failures, 1) << "one loss, one restart";
}

TEST_F(NodeGroupTest, UseA07_AttemptsThatFailAtOnceComeEverLater) {
  template_.max_restarts = 50;
  template_.restart_backoff = absl::Seconds(1);
  template_.restart_backoff_max = absl::Seconds(3);
  template_.join_timeout = absl::Milliseconds(100);  // does not run while nobody may come
  Come(1);
  Come(2);
  FailAll("task/1 was killed by SIGKILL");
  EXPECT_EQ(Begun(1), 2) << "one may be chance";
  const std::vector<std::string> texts = {"ValueError", "OSError", "KeyError", "TypeError"};
  const std::vector<int> seconds = {1, 2, 3, 3};
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t begun = Begun(1);
    FailAll(texts[i]);
    EXPECT_EQ(Begun(1), begun);
    Pass(absl::Seconds(seconds[i]) - absl::Milliseconds(1));
    EXPECT_EQ(Begun(1), begun) << i;
    Pass(absl::Milliseconds(1));
    EXPECT_EQ(Begun(1), begun + 1) << i;
  }
  EXPECT_THAT(said_, testing::Contains("3 failures in a row, each within 10s of the start: the "
                                       "next attempt waits for 2s"));
  // Who has worked for a while begins at once.
  Pass(absl::Minutes(1));
  const int64_t begun = Begun(1);
  FailAll("ValueError");
  EXPECT_EQ(Begun(1), begun + 1);
}

TEST_F(NodeGroupTest, WhoWaitsForALaterAttemptIsToldWhy) {
  template_.max_restarts = 50;
  template_.restart_backoff = absl::Seconds(30);
  Come(1);
  Come(2);
  FailAll("ValueError");
  FailAll("OSError");
  Pass(absl::Seconds(6));
  EXPECT_THAT(nodes_[1].waits.back(), HasSubstr("the next attempt waits for 30s"));
  Die(2);
  Pass(absl::Seconds(2));
  Come(3);
  EXPECT_EQ(Begun(3), 0) << "nor does who comes meanwhile shorten it";
  Pass(absl::Seconds(22));
  EXPECT_EQ(Begun(3), 1);
}

TEST_F(NodeGroupTest, TheSameFailureThriceEndsTheRunWhereEachCameSoon) {
  template_.max_restarts = 50;
  template_.restart_backoff = absl::ZeroDuration();
  for (const bool quick : {true, false}) {
    Come(1);
    Come(2);
    for (int time = 1; time <= 3; ++time) {
      if (!quick) Pass(absl::Seconds(11));
      Fail(2, absl::StrCat("task/1 (pid ", 70 + time, ") ended with exit code 1 after 0.", time,
                           " s: ModuleNotFoundError: No module named 'numpi'"));
      EXPECT_EQ(nodes_[1].last().another, !quick || time < 3);
      if (!quick || time < 3) {
        Over(1, 143);
        Over(2, 1);
      }
    }
    if (!quick) continue;
    Over(1, 143);
    Over(2, 1);
    EXPECT_EQ(nodes_[1].last().kind, Kind::kEnded);
    EXPECT_EQ(nodes_[1].last().exit_code, 137);
    EXPECT_THAT(nodes_[1].last().why,
                testing::StartsWith("giving up: the same failure 3 times, each within 10s of the "
                                    "start; node 1 on host-2 (lockstep run, pid 102): task/1"));
  }
}

TEST_F(NodeGroupTest, FailuresAreTheSameHoweverTheyAreTold) {
  template_.max_restarts = 50;
  template_.restart_backoff = absl::ZeroDuration();
  Come(1);
  Come(2);
  for (const char* how : {"raised", "ended with exit code 1 after 0.2 s:", "raised"}) {
    EXPECT_EQ(nodes_[1].last().kind, Kind::kBegin);
    Do(NodeFailed{.node = NodeId(2),
                  .attempt = nodes_[2].attempt,
                  .text = absl::StrCat("task/1 ", how, " ValueError"),
                  .failure = "ValueError"});
    Over(1, 143);
    Over(2, 1);
  }
  EXPECT_EQ(nodes_[1].last().kind, Kind::kEnded);
}

TEST_F(NodeGroupTest, OtherFailuresBetweenAreNotTheSame) {
  template_.max_restarts = 50;
  template_.restart_backoff = absl::ZeroDuration();
  Come(1);
  Come(2);
  for (const char* text : {"ValueError", "ValueError", "OSError", "ValueError", "ValueError"}) {
    Fail(2, text);
    EXPECT_TRUE(nodes_[1].last().another) << text;
    Over(1, 143);
    Over(2, 1);
  }
}

TEST_F(NodeGroupTest, UseA10_APreemptedRunEndsWithWhatBecameOfIt) {
  Come(1);
  Come(2);
  Do(NodeOver{.node = NodeId(1),
              .attempt = 1,
              .exit_code = 83,
              .text = "preempted; preemption 1 (signal): saved: 2 of 2 saved at step 66"});
  Over(2, 83);
  EXPECT_EQ(nodes_[2].last().kind, Kind::kEnded);
  EXPECT_EQ(nodes_[2].last().exit_code, 83);
  EXPECT_EQ(nodes_[2].last().why,
            "preempted; preemption 1 (signal): saved: 2 of 2 saved at step 66");
}

TEST_F(NodeGroupTest, ANodeThatDoesNotComeIsNamedWhenTimeIsUp) {
  template_.join_timeout = absl::Minutes(1);
  Come(1, 0);
  Pass(absl::Seconds(61));
  ASSERT_FALSE(nodes_[1].told.empty());
  EXPECT_EQ(nodes_[1].last().kind, Kind::kEnded);
  EXPECT_EQ(nodes_[1].last().exit_code, 1);
  EXPECT_THAT(nodes_[1].last().why,
              HasSubstr("not enough nodes came within 1m: node 1 of 2 have not come"));
}

TEST_F(NodeGroupTest, Finding19_ManyWhoWaitAreToldForWhomInShortTurns) {
  template_.least = kNodesMax;
  template_.most = kNodesMax;
  for (uint64_t id = 1; id <= 300; ++id) Come(id, static_cast<int32_t>(id + 7));
  Pass(absl::Seconds(5));
  for (const auto& [id, node] : nodes_) {
    EXPECT_THAT(node.waits, testing::ElementsAre(testing::StartsWith(
                                "node 0, node 1, node 2, node 3, node 4, node 5, node 6, node 7 "
                                "+16076 more of 16384 have not come; there: node 8 on host-1 ")));
    EXPECT_THAT(node.waits.back(), testing::EndsWith(" +292 more"));
  }
  EXPECT_LE(most_replies_, 128u);
  EXPECT_LT(longest_, absl::Milliseconds(200)) << "it took 0.1 s for each of them";
  Pass(absl::Seconds(5));
  EXPECT_EQ(nodes_[300].waits.size(), 2U);
}

TEST_F(NodeGroupTest, ManyAreToldToBeginAndOfTheEndInShortTurns) {
  template_.least = 300;
  template_.most = 300;
  for (uint64_t id = 1; id <= 300; ++id) Come(id);
  Pass(absl::ZeroDuration());
  for (const auto& [id, node] : nodes_) {
    ASSERT_EQ(node.told.size(), 1U) << id;
    EXPECT_EQ(node.last().kind, Kind::kBegin);
  }
  for (uint64_t id = 1; id <= 300; ++id) Over(id);
  Pass(absl::ZeroDuration());
  for (const auto& [id, node] : nodes_) EXPECT_EQ(node.last().kind, Kind::kEnded) << id;
  EXPECT_TRUE(group_.empty());
  EXPECT_LE(most_replies_, 128u);
}

TEST_F(NodeGroupTest, ManyWhoAreGoneAtOnceAreAllMissed) {
  template_.least = 301;
  template_.most = 301;
  for (uint64_t id = 1; id <= 300; ++id) Come(id);
  for (uint64_t id = 1; id <= 300; ++id) Die(id);
  Pass(absl::Seconds(1));
  EXPECT_EQ(std::count_if(said_.begin(), said_.end(),
                          [](const std::string& text) { return text.ends_with("or its host"); }),
            300);
  EXPECT_TRUE(group_.empty());
}

TEST_F(NodeGroupTest, WithinMinAndMaxItGoesOnWithThoseThatAreLeft) {
  template_.least = 1;
  template_.max_restarts = 3;
  Come(1);
  Come(2);
  EXPECT_EQ(nodes_[2].last().nodes, 2);
  Die(1);
  Pass(absl::Seconds(1));
  EXPECT_EQ(nodes_[2].last().kind, Kind::kCalledOff);
  Over(2, 143);
  EXPECT_EQ(nodes_[2].last(), (Instruction{.kind = Kind::kBegin,
                                           .number = 3,
                                           .attempt = 2,
                                           .rank = 0,
                                           .nodes = 1,
                                           .first = 0,
                                           .size = 2,
                                           .failures = 1}));
  // One comes: it is let in, and that uses up no restart.
  Come(3);
  EXPECT_EQ(nodes_[2].last().kind, Kind::kCalledOff);
  EXPECT_THAT(nodes_[2].last().why, HasSubstr("host-3 (lockstep run, pid 103) has come"));
  Over(2, 143);
  EXPECT_EQ(nodes_[2].last().nodes, 2);
  EXPECT_EQ(nodes_[2].last().failures, 1);
  EXPECT_EQ(nodes_[3].last().rank, 1);
}

TEST_F(NodeGroupTest, TheFirstAttemptWaitsForTheLastCall) {
  template_.least = 1;
  template_.most = 3;
  template_.last_call = absl::Seconds(30);
  Come(1);
  Pass(absl::Seconds(20));
  Come(2);
  Pass(absl::Seconds(29));
  EXPECT_EQ(Begun(1), 0);
  Pass(absl::Seconds(1));
  EXPECT_EQ(Begun(1), 1);
  EXPECT_EQ(nodes_[1].last().nodes, 2);
}

TEST_F(NodeGroupTest, WhoIsTooManyWaitsInReadiness) {
  template_.max_restarts = 1;
  Come(1);
  Come(2);
  Come(3);
  EXPECT_THAT(nodes_[3].told, IsEmpty());
  EXPECT_EQ(Begun(1), 1);
  EXPECT_EQ(nodes_[1].told.size(), 1U) << "nobody is called off for a spare";
  Die(1);
  Pass(absl::Seconds(1));
  Over(2, 143);
  EXPECT_EQ(nodes_[2].last().rank, 0);
  EXPECT_EQ(nodes_[3].last().rank, 1);
  EXPECT_EQ(nodes_[3].last().attempt, 2);
}

TEST_F(NodeGroupTest, ALinkThatComesBackInTimeIsNoLoss) {
  Come(1);
  Come(2);
  Die(2);
  Pass(absl::Milliseconds(900));
  Poll(2);
  Pass(absl::Seconds(10));
  EXPECT_EQ(nodes_[1].told.size(), 1U);
}

TEST_F(NodeGroupTest, AnInstructionIsRepeatedUntilItIsSeen) {
  Come(1);
  nodes_[1].polls = false;
  Come(2);
  ASSERT_EQ(nodes_[1].told.size(), 1U);
  // The answer was lost with the link.
  nodes_[1].told.clear();
  nodes_[1].seen = 0;
  nodes_[1].attempt = 0;
  Poll(1);
  ASSERT_EQ(nodes_[1].told.size(), 1U);
  EXPECT_EQ(nodes_[1].last().kind, Kind::kBegin);
}

TEST_F(NodeGroupTest, Finding19_WhoNeverPollsAgainIsNotOwedEachAttempt) {
  template_.least = template_.most = 1;
  template_.processes = kAddressedMembersMax;
  template_.addresses.assign(kAddressedMembersMax, std::string(100, 'a'));
  template_.max_restarts = std::numeric_limits<int32_t>::max();
  template_.restart_backoff = absl::ZeroDuration();
  Come(1);
  nodes_[1].call = CallId();  // its call ends, and it asks no more
  const size_t bytes = group_.progress().address_bytes;
  EXPECT_GE(bytes, 100 * kAddressedMembersMax);
  for (int64_t attempt = 1; attempt <= 100; ++attempt) {
    const std::string text(static_cast<size_t>(attempt % 5 + 1), 'x');
    Do(NodeFailed{.node = NodeId(1), .attempt = attempt, .text = text});
    Do(NodeOver{.node = NodeId(1), .attempt = attempt, .exit_code = 1});
  }
  nodes_[1].told.clear();
  Poll(1);
  ASSERT_EQ(nodes_[1].told.size(), 2U);
  EXPECT_EQ(nodes_[1].told.front().kind, Kind::kCalledOff);
  EXPECT_EQ(nodes_[1].told.front().attempt, 100);
  EXPECT_EQ(nodes_[1].last().kind, Kind::kBegin);
  EXPECT_EQ(nodes_[1].last().attempt, 101);
  EXPECT_EQ(group_.progress().address_bytes, bytes);
}

TEST_F(NodeGroupTest, LongAddressesGoOutInShortTurns) {
  template_.least = template_.most = 64;
  template_.processes = kAddressedMembersMax / 64;
  template_.addresses.assign(static_cast<size_t>(template_.processes), std::string(300, 'a'));
  for (uint64_t id = 1; id <= 64; ++id) Come(id);
  Pass(absl::ZeroDuration());
  for (const auto& [id, node] : nodes_) EXPECT_EQ(node.last().addresses.size(), 1024U) << id;
  EXPECT_LE(most_replies_, 4U) << "of 300 KB each";
}

TEST_F(NodeGroupTest, WhoWasCutOffIsToldToStopAndComesAgain) {
  template_.least = 1;
  template_.max_restarts = 3;
  Come(1);
  Come(2);
  Die(2);
  Pass(absl::Seconds(1));
  Over(1, 143);
  EXPECT_EQ(nodes_[1].last().nodes, 1);
  Poll(2);  // it knew of nothing
  EXPECT_EQ(nodes_[2].last().kind, Kind::kCalledOff);
  EXPECT_EQ(nodes_[1].last().kind, Kind::kBegin) << "not before its processes have ended";
  Over(2, 143);
  EXPECT_EQ(nodes_[1].last().kind, Kind::kCalledOff);
  Over(1, 143);
  EXPECT_EQ(nodes_[1].last().attempt, 3);
  EXPECT_EQ(nodes_[2].last().attempt, 3);
}

TEST_F(NodeGroupTest, AServerThatWasStartedAgainTakesUpTheAttempt) {
  Come(1);
  Come(2);
  group_ = NodeGroup(Options{});
  Poll(2);
  Poll(1);
  Pass(absl::Seconds(100));
  EXPECT_EQ(nodes_[1].told.size(), 1U);
  EXPECT_EQ(nodes_[2].told.size(), 1U);
  Over(1);
  Over(2);
  EXPECT_EQ(nodes_[1].last().kind, Kind::kEnded);
  EXPECT_EQ(nodes_[1].last().exit_code, 0);
}

TEST_F(NodeGroupTest, Finding19_AttemptsAreNumberedAfterThoseOfTheJobWhoeverComesFirst) {
  template_.least = template_.most = 3;
  Come(1);
  Come(2);
  Come(4);
  group_ = NodeGroup(Options{});
  for (const uint64_t id : {1, 2, 3}) nodes_[id].job_attempt = 7;
  Do(NodeBroke{NodeId(4)});
  nodes_[3].is = nodes_[4].is;
  nodes_[3].is.id = NodeId(3);
  nodes_.erase(4);
  Poll(3);  // a new one
  EXPECT_EQ(group_.progress().attempts_before, 7);
  nodes_[2].attempt = 5;
  Poll(2);
  EXPECT_EQ(group_.progress().attempt, 5);
  EXPECT_EQ(group_.progress().attempts_before, 2)
      << "the fifth of the run is the seventh of the job";
}

TEST_F(NodeGroupTest, Finding19_AnAttemptOfNoNodesIsRefused) {
  nodes_[1].attempt = 3;
  nodes_[1].is = template_;
  nodes_[1].is.id = NodeId(1);
  Poll(1);
  EXPECT_THAT(nodes_[1].refusal, HasSubstr("attempt 3 of the run cannot have 0 nodes"));
  EXPECT_TRUE(group_.empty());
}

TEST_F(NodeGroupTest, Finding19_NoAttemptBeginsBeyondTheLast) {
  template_.least = template_.most = 1;
  template_.max_restarts = 5;
  for (const int64_t job_attempt : {kAttemptMax - 1, kAttemptMax}) {
    nodes_[1] = Seen();
    nodes_[1].is = template_;
    nodes_[1].is.id = NodeId(1);
    nodes_[1].job_attempt = job_attempt;
    Poll(1);
    if (job_attempt < kAttemptMax) {
      EXPECT_EQ(nodes_[1].last().kind, Kind::kBegin);
      Fail(1);
      Over(1, 1);
    }
    EXPECT_EQ(nodes_[1].last().kind, Kind::kEnded);
    EXPECT_EQ(nodes_[1].last().exit_code, 1);
    EXPECT_THAT(nodes_[1].last().why, HasSubstr("attempt_max"));
  }
}

TEST_F(NodeGroupTest, WhoIsDoneAndComesBackToAnotherServerIsDone) {
  Come(1);
  Come(2);
  Over(1);
  group_ = NodeGroup(Options{});
  Poll(2);
  Poll(1);
  EXPECT_EQ(nodes_[1].told.size(), 1U) << "the other one still runs";
  Over(2);
  EXPECT_EQ(nodes_[1].last().kind, Kind::kEnded);
  EXPECT_EQ(nodes_[1].last().exit_code, 0);
}

// Its launcher was stopped, say, while its processes went on.
TEST_F(NodeGroupTest, WhoIsDoneAndWasTakenForLostTakesPartInTheNextAttempt) {
  template_.max_restarts = 1;
  Come(1);
  Come(2);
  Die(1);
  Pass(absl::Seconds(2));
  EXPECT_EQ(nodes_[2].last().kind, Kind::kCalledOff);
  Over(2);
  nodes_[1].over = 0;  // said to nobody
  Poll(1);
  EXPECT_EQ(nodes_[1].last().kind, Kind::kBegin);
  EXPECT_EQ(nodes_[1].last().attempt, 2);
  EXPECT_EQ(nodes_[2].last().attempt, 2);
}

TEST_F(NodeGroupTest, WhoDoesNotComeBackToItIsLost) {
  template_.max_restarts = 1;
  Come(1);
  Come(2);
  group_ = NodeGroup(Options{});
  Poll(2);
  Pass(absl::Seconds(31));
  EXPECT_EQ(nodes_[2].last().kind, Kind::kCalledOff);
  EXPECT_THAT(nodes_[2].last().why, HasSubstr("1 node did not come back"));
}

TEST_F(NodeGroupTest, WhoHasNotHeardOfTheEndIsToldThatThereIsNothing) {
  Come(1);
  Come(2);
  Over(1, 3);
  nodes_[1].polls = false;
  group_ = NodeGroup(Options{});
  Poll(1);
  EXPECT_EQ(nodes_[1].last().kind, Kind::kEnded);
  EXPECT_EQ(nodes_[1].last().exit_code, 3);
}

TEST_F(NodeGroupTest, WhoDoesNotFitIsRefusedWithTheReason) {
  template_.run = "a";
  Come(1, 0);
  template_.most = 3;
  Come(2);
  EXPECT_THAT(nodes_[2].refusal, HasSubstr("must say the same"));
  template_.most = 2;
  Come(3, 0);
  EXPECT_THAT(nodes_[3].refusal,
              HasSubstr("node 0 on host-1 (lockstep run, pid 101) has node rank 0"));
  Come(4, 2);
  EXPECT_THAT(nodes_[4].refusal, HasSubstr("not among 2 nodes"));
  template_.run = "b";
  Come(5);
  EXPECT_THAT(nodes_[5].refusal, HasSubstr("is run by 'a'"));
  template_.processes = 0;
  Come(6);
  EXPECT_THAT(nodes_[6].refusal, HasSubstr("cannot be"));
}

TEST_F(NodeGroupTest, WhoIsToldToEndTakesTheAttemptAlong) {
  template_.least = 1;
  template_.max_restarts = 1;
  Come(1);
  Come(2);
  Do(NodeLeaves{NodeId(2)});
  EXPECT_EQ(nodes_[1].last().kind, Kind::kCalledOff);
  EXPECT_THAT(nodes_[1].last().why, HasSubstr("was told to end"));
}

TEST_F(NodeGroupTest, ThePreemptedGoOnInAnotherAttempt) {
  Come(1);
  Come(2);
  Over(1, 0, /*again=*/true);
  EXPECT_TRUE(nodes_[2].last().another);
  EXPECT_THAT(nodes_[2].last().why, HasSubstr("was preempted"));
  Over(2, 0, /*again=*/true);
  EXPECT_EQ(nodes_[2].last().attempt, 2);
  EXPECT_EQ(nodes_[2].last().failures, 0);
}

}  // namespace
}  // namespace lockstep::node_group

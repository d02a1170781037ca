#include "lockstep/coord/member_processes.h"

#include <gtest/gtest.h>

#include <optional>

namespace lockstep::coord {
namespace {

constexpr MemberIndex kMember(1);

Time After(int64_t seconds) { return Time() + absl::Seconds(seconds); }

class MemberProcessesTest : public testing::Test {
 protected:
  void Start(int64_t pid, bool alone = false) {
    processes_.Start(After(1), {.member = kMember, .host = "gpu-3", .pid = pid}, alone);
  }
  bool End(int64_t pid) {
    return processes_.End(After(5), {.member = kMember, .pid = pid, .exit_code = 1});
  }
  const ProcessRecord& process() const { return processes_[1]; }

  MemberProcesses processes_{3};
};

TEST_F(MemberProcessesTest, IgnoresReportsAboutAnOlderProcess) {
  Start(7);
  Start(8);
  EXPECT_FALSE(End(7));
  EXPECT_TRUE(process().running);
  EXPECT_EQ(processes_.SetStopped(After(2), kMember, 7, true), std::nullopt);
  EXPECT_TRUE(End(8));
  EXPECT_TRUE(process().failed);
  EXPECT_FALSE(End(8)) << "it has ended already";
}

TEST_F(MemberProcessesTest, SaysHowLongAProcessWasStopped) {
  Start(7);
  EXPECT_EQ(processes_.SetStopped(After(3), kMember, 7, true), absl::Seconds(2));
  EXPECT_FALSE(processes_.AnyRuns());
  EXPECT_EQ(processes_.SetStopped(After(4), kMember, 7, true), std::nullopt);
  EXPECT_EQ(processes_.SetStopped(After(9), kMember, 7, false), absl::Seconds(6));
  EXPECT_TRUE(processes_.AnyRuns());
}

TEST_F(MemberProcessesTest, TellsOfAnExceptionOnce) {
  Start(7);
  ProcessEnding ending{.member = kMember, .pid = 7};
  EXPECT_FALSE(processes_.AnnounceEnd(ending)) << "no exception";
  ending.error = "ValueError";
  EXPECT_TRUE(processes_.AnnounceEnd(ending));
  EXPECT_FALSE(processes_.AnnounceEnd(ending));
}

TEST_F(MemberProcessesTest, ANewerRunLastsUntilSomebodyJoins) {
  Start(7, /*alone=*/true);
  EXPECT_TRUE(processes_.HasNewerRun());
  processes_.SomebodyJoined();
  EXPECT_FALSE(processes_.HasNewerRun());
  Start(7, /*alone=*/true);
  EXPECT_FALSE(processes_.HasNewerRun()) << "the same process, told again";
  Start(8);
  EXPECT_TRUE(processes_.HasNewerRun()) << "nobody told of the end of the last: another launcher's";
}

TEST_F(MemberProcessesTest, WhatEndedBeforeAnAttemptSaysNothingAboutIt) {
  Start(7);
  processes_.BeginAttempt();
  EXPECT_FALSE(process().former) << "it runs";
  End(7);
  processes_.BeginAttempt();
  EXPECT_TRUE(process().former);
}

}  // namespace
}  // namespace lockstep::coord

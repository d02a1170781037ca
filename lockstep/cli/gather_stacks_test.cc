#include "lockstep/cli/gather_stacks.h"

#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

using wire::native::JobStatus;
using wire::native::MemberCondition;

JobStatus JobOf(std::vector<MemberCondition> conditions) {
  JobStatus job;
  for (const MemberCondition condition : conditions) {
    job.members.push_back(
        {.index = static_cast<int32_t>(job.members.size()), .condition = condition});
  }
  return job;
}

TEST(MissingMembers, AreThoseThatOthersWaitFor) {
  JobStatus job =
      JobOf({MemberCondition::kConnected, MemberCondition::kSuspect, MemberCondition::kConnected,
             MemberCondition::kLeft, MemberCondition::kConnected});
  EXPECT_EQ(MissingMembers(job), std::vector<int32_t>{1});
  job.barriers.push_back({.waiting = {0}, .awaited = {2}});
  job.torch_store.emplace().awaited = {{.key = "a", .rank = 4}, {.key = "b"}};
  EXPECT_EQ(MissingMembers(job), (std::vector<int32_t>{1, 2, 4}));
}

TEST(MissingMembers, InAJobThatNobodyHasComeIntoNobodyIsMissing) {
  EXPECT_TRUE(
      MissingMembers(JobOf({MemberCondition::kMissing, MemberCondition::kMissing})).empty());
}

TEST(MayAnswer, SaysThatNobodyWaitsForTheStacksOfTheDead) {
  using wire::native::ProcessState;
  wire::native::MemberStatus member = {.condition = MemberCondition::kMissing};
  EXPECT_FALSE(MayAnswer(member)) << "nobody has told of a process";
  member.pid = 17;
  for (const auto state :
       {ProcessState::kUnspecified, ProcessState::kRunning, ProcessState::kStopped}) {
    member.process = state;
    EXPECT_TRUE(MayAnswer(member));
  }
  for (const auto state : {ProcessState::kEnded, ProcessState::kFailed}) {
    member.process = state;
    EXPECT_FALSE(MayAnswer(member));
  }
  member.process = ProcessState::kRunning;
  member.condition = MemberCondition::kLost;
  EXPECT_FALSE(MayAnswer(member));
}

launch::ProcessStacks Process(const char* state, int64_t still_us) {
  return {.member = 2,
          .name = "task/2",
          .host = "host-b",
          .pid = 17,
          .state = state,
          .source = "py-spy",
          .threads = {{.name = "MainThread", .frames = {{"load", "/home/me/loader.py", 31}}}},
          .still_us = still_us};
}

TEST(ProcessLocation, AreWhatTheStackSays) {
  using Doing = observe::ProcessLocation::Doing;
  const auto all = LocationsOf({Process("sleeping", 5), Process("running", -1),
                                Process("stopped", 7), Process("ended", -1)});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0], (observe::ProcessLocation{.member = 2,
                                              .name = "task/2",
                                              .host = "host-b",
                                              .pid = 17,
                                              .doing = Doing::kWaits,
                                              .place = "load, loader.py:31",
                                              .one = "waits in load, loader.py:31",
                                              .many = "wait in load, loader.py:31",
                                              .still_us = 5}));
  EXPECT_EQ(all[1].doing, Doing::kRuns);
  // Whoever runs there is at the same place.
  EXPECT_EQ(all[1].place, all[0].place);
  EXPECT_FALSE(all[1].still_us);
  EXPECT_EQ(all[2].one, "is stopped");
  EXPECT_EQ(all[3].doing, Doing::kEnded);
}

}  // namespace
}  // namespace lockstep::cli

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

TEST(StacksAsked, WhatIsEncodedIsDecoded) {
  const auto asked = DecodeQuestion(EncodeQuestion({.id = "7", .members = {1, 2}, .native = true}));
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(asked->id, "7");
  EXPECT_EQ(asked->members, (std::vector<int32_t>{1, 2}));
  EXPECT_TRUE(asked->native);
}

TEST(StacksAsked, WhatIsNoQuestionIsRefused) {
  for (const char* text : {"", "[]", "{}", R"({"id":1,"members":[],"native":false})", "\xff"}) {
    EXPECT_EQ(DecodeQuestion(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace lockstep::cli

#include "lockstep/coord/job_changes.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::coord {
namespace {

std::vector<MemberIndex> Members(std::vector<int32_t> indices) {
  return {indices.begin(), indices.end()};
}

TEST(JobChanges, ListsEachMemberOnceInOrder) {
  const CoordinatorOptions options{.size = 4};
  JobChanges changes(options);
  changes.Touch(MemberIndex(3));
  const int64_t before = changes.version();
  changes.Touch(MemberIndex(2));
  changes.Touch(MemberIndex(0));
  changes.Touch(MemberIndex(2));
  EXPECT_EQ(changes.MembersSince(before), Members({0, 2}));
  EXPECT_TRUE(changes.MembersSince(changes.version()).empty());
}

TEST(JobChanges, KnowsNoVersionFromBeforeARestart) {
  const CoordinatorOptions options{.size = 2};
  JobChanges changes(options);
  changes.Touch(MemberIndex(1));
  changes.KeepError({.message = "it broke"});
  const int64_t before = changes.version();
  changes.Restart(1000);
  EXPECT_FALSE(changes.Knows(before));
  EXPECT_TRUE(changes.Knows(1000));
  EXPECT_TRUE(changes.MembersSince(1000).empty());
  ASSERT_EQ(changes.errors().size(), 1u);
  EXPECT_EQ(changes.errors().begin()->first, 1001) << "whoever comes from 1000 is told of it";
}

TEST(JobChanges, ForgetsConsequencesBeforeTheirCause) {
  const CoordinatorOptions options{.size = 1, .kept_errors_max = 2};
  JobChanges changes(options);
  changes.KeepError({.message = "cause"});
  changes.KeepError({.message = "first", .consequence = true});
  changes.KeepError({.message = "second", .consequence = true});
  ASSERT_EQ(changes.errors().size(), 2u);
  EXPECT_EQ(changes.errors().begin()->second.message, "cause");
  EXPECT_EQ(changes.errors().rbegin()->second.message, "second");
}

}  // namespace
}  // namespace lockstep::coord

#include "lockstep/coord/membership.h"

#include <gtest/gtest.h>

namespace lockstep::coord {
namespace {

Time At(double seconds) { return Time() + absl::Seconds(seconds); }

class MembershipTest : public testing::Test {
 protected:
  MembershipTest() {
    for (int32_t i = 0; i < 3; ++i) {
      members_.BeginLife(Time(), MemberIndex(i), Incarnation(10 + i), "peer");
      members_.Connect(Time(), MemberIndex(i));
    }
  }

  JobRecord job_{CoordinatorOptions{.size = 3}};
  Membership members_{job_};
};

TEST_F(MembershipTest, NeverGoesBackToAFormerIncarnation) {
  members_.Disconnect(At(1), MemberIndex(0));

  members_.BeginLife(At(2), MemberIndex(0), Incarnation(77), "");

  EXPECT_TRUE(job_.lives.IsFormer(MemberIndex(0), Incarnation(10)));
  EXPECT_FALSE(job_.lives.IsFormer(MemberIndex(0), Incarnation(77)));

  EXPECT_EQ(members_.Get(MemberIndex(0)).incarnation, Incarnation(77));
  EXPECT_EQ(job_.NameWithLife(MemberIndex(0)), "task/0#2");
  EXPECT_EQ(members_.Find(Incarnation(10)), std::nullopt);
  EXPECT_EQ(members_.Find(Incarnation(77)), MemberIndex(0));
}

TEST_F(MembershipTest, KeepsTheFirstErrorOfAMember) {
  const ErrorPtr first = MakeError({.message = "first"});
  members_.Fail(At(1), MemberIndex(1), first);
  const int64_t version = members_.version();

  members_.Fail(At(2), MemberIndex(1), MakeError({.message = "second"}));

  EXPECT_EQ(members_.Get(MemberIndex(1)).error, first);
  EXPECT_EQ(members_.version(), version);
}

TEST_F(MembershipTest, TellsTheLivesOfThisAttemptFromThoseOfEarlierOnes) {
  Membership next{job_};
  next.BeginLife(At(1), MemberIndex(0), Incarnation(77), "");

  EXPECT_TRUE(next.lives().Knew(MemberIndex(0), Incarnation(77)));
  EXPECT_FALSE(next.lives().Knew(MemberIndex(0), Incarnation(10)));
  EXPECT_EQ(next.lives().CountHere(MemberIndex(0)), 1u);
  EXPECT_EQ(next.lives().CountHere(MemberIndex(1)), 0u);
}

TEST_F(MembershipTest, FindsTheLowestFreeMemberAgainWhenOneMayBeFree) {
  const RoleRecord role{.first = 0, .size = 3};
  const auto is_out = [this](MemberIndex member) {
    return members_.Get(member).state == MemberState::kDisconnected;
  };
  EXPECT_EQ(members_.vacancies().FirstFree(role, is_out), std::nullopt);

  members_.Disconnect(At(1), MemberIndex(2));
  EXPECT_EQ(members_.vacancies().FirstFree(role, is_out), MemberIndex(2));
  members_.Disconnect(At(1), MemberIndex(1));
  EXPECT_EQ(members_.vacancies().FirstFree(role, is_out), MemberIndex(1));
}

TEST_F(MembershipTest, RecordsEachChangedMemberOnce) {
  Effects all;
  members_.RecordChanges(all);
  EXPECT_EQ(all.records.size(), 3u);

  Effects out;
  members_.Disconnect(At(1), MemberIndex(2));
  members_.Fail(At(1), MemberIndex(0), MakeError({}));
  members_.BeginLife(At(2), MemberIndex(2), Incarnation(77), "");
  members_.RecordChanges(out);

  ASSERT_EQ(out.records.size(), 2u);
  EXPECT_EQ(std::get<record::MemberChanged>(out.records[0]).member, MemberIndex(0));
  EXPECT_EQ(std::get<record::MemberChanged>(out.records[1]).member, MemberIndex(2));
}

TEST(JobRecord, NamesThreeMembersAndCountsTheRest) {
  JobRecord job(CoordinatorOptions{.size = 5});
  job.lives.Restore(MemberIndex(1), Incarnation(9), 2);
  job.processes.Restore(Time(), {.member = MemberIndex(1), .host = "gpu-3", .pid = 17});

  EXPECT_EQ(job.NameSome({MemberIndex(0), MemberIndex(1)}), "task/0, task/1#2");
  EXPECT_EQ(job.NameSome(
                {MemberIndex(0), MemberIndex(1), MemberIndex(2), MemberIndex(3), MemberIndex(4)}),
            "task/0, task/1#2, task/2 +2 more");
  EXPECT_EQ(job.Describe(MemberIndex(1)), "task/1#2 (pid 17 on gpu-3)");
}

}  // namespace
}  // namespace lockstep::coord

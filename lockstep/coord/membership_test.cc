#include "lockstep/coord/membership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::coord {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

Time At(double seconds) { return Time() + absl::Seconds(seconds); }

class MembershipTest : public testing::Test {
 protected:
  MembershipTest() {
    for (int32_t i = 0; i < 3; ++i) {
      members_.BeginLife(Time(), MemberIndex(i), Incarnation(10 + i), "peer");
      members_.Connect(Time(), MemberIndex(i));
    }
  }

  static auto IsLoss(int32_t member) {
    return Field(&Membership::Loss::member, MemberIndex(member));
  }

  static auto IsTurn(int32_t member, bool suspect) {
    return AllOf(Field(&Membership::Turn::member, MemberIndex(member)),
                 Field(&Membership::Turn::suspect, suspect));
  }

  JobRecord job_{CoordinatorOptions{.size = 3}};
  Membership members_{job_};
};

TEST_F(MembershipTest, LosesTheSilentExactlyAtTheTimeout) {
  members_.Heard(At(50), MemberIndex(1));

  EXPECT_THAT(members_.Overdue(At(99.999)), IsEmpty());
  EXPECT_EQ(members_.NextDeadline(), At(100));
  EXPECT_THAT(members_.Overdue(At(100)), ElementsAre(IsLoss(0), IsLoss(2)));

  members_.Fail(At(100), MemberIndex(0), MakeError({}));
  members_.Fail(At(100), MemberIndex(2), MakeError({}));
  EXPECT_EQ(members_.NextDeadline(), At(110)) << "then the third is suspect";
  EXPECT_EQ(members_.connected(), 1u);
}

TEST_F(MembershipTest, SaysWhoIsSilentForLongBeforeItIsLost) {
  members_.Heard(At(1), MemberIndex(1));
  EXPECT_EQ(members_.NextDeadline(), At(60));
  EXPECT_THAT(members_.Overdue(At(60)), IsEmpty());
  EXPECT_THAT(members_.TakeTurns(), ElementsAre(IsTurn(0, true), IsTurn(2, true)));
  EXPECT_TRUE(members_.Get(MemberIndex(0)).suspect);

  members_.Heard(At(70), MemberIndex(0));

  EXPECT_THAT(members_.TakeTurns(), ElementsAre(IsTurn(0, false)));
  EXPECT_THAT(members_.Overdue(At(61)), IsEmpty());
  EXPECT_THAT(members_.TakeTurns(), ElementsAre(IsTurn(1, true)));
  EXPECT_THAT(members_.Overdue(At(100)), ElementsAre(IsLoss(2)));
  EXPECT_THAT(members_.Overdue(At(101)), ElementsAre(IsLoss(2), IsLoss(1)));
  EXPECT_THAT(members_.TakeTurns(), IsEmpty()) << "they are told of as lost";
  EXPECT_THAT(members_.Overdue(At(130)), ElementsAre(IsLoss(2), IsLoss(1)));
  EXPECT_THAT(members_.TakeTurns(), ElementsAre(IsTurn(0, true)));
}

TEST_F(MembershipTest, SaysNothingOfTroubleThatIsOverAlready) {
  members_.ConnectionBroke(At(7), MemberIndex(2));
  members_.ConnectionBack(At(7), MemberIndex(2));
  members_.ConnectionSilent(At(7), MemberIndex(1));
  members_.Fail(At(7), MemberIndex(1), MakeError({}));

  EXPECT_THAT(members_.TakeTurns(), ElementsAre(IsTurn(2, false)));
}

TEST_F(MembershipTest, LosesABrokenConnectionAfterItsGrace) {
  members_.ConnectionBroke(At(7), MemberIndex(2));
  EXPECT_EQ(members_.NextDeadline(), At(7.2));
  EXPECT_THAT(members_.BrokenSince(At(6)), IsEmpty());
  EXPECT_THAT(members_.BrokenSince(At(7)), ElementsAre(IsLoss(2)));

  members_.ConnectionBack(Time(), MemberIndex(2));

  EXPECT_EQ(members_.NextDeadline(), At(60));
  EXPECT_THAT(members_.Overdue(At(8)), IsEmpty());
}

TEST_F(MembershipTest, OrdersLossesByWhenTheirTroubleBegan) {
  members_.ConnectionBroke(At(7.1), MemberIndex(0));
  members_.ConnectionBroke(At(7.0), MemberIndex(2));

  EXPECT_THAT(members_.Overdue(At(8)), ElementsAre(IsLoss(2), IsLoss(0)));
}

TEST_F(MembershipTest, NeverGoesBackToAFormerIncarnation) {
  members_.Disconnect(At(1), MemberIndex(0));

  members_.BeginLife(At(2), MemberIndex(0), Incarnation(77), "");

  EXPECT_TRUE(job_.IsFormerLife(MemberIndex(0), Incarnation(10)));
  EXPECT_FALSE(job_.IsFormerLife(MemberIndex(0), Incarnation(77)));

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

TEST(JobRecord, NamesThreeMembersAndCountsTheRest) {
  JobRecord job(CoordinatorOptions{.size = 5});
  job.lives[1] = 2;
  job.processes.Mutable(1) = {.host = "gpu-3", .pid = 17};

  EXPECT_EQ(job.NameSome({MemberIndex(0), MemberIndex(1)}), "task/0, task/1#2");
  EXPECT_EQ(job.NameSome(
                {MemberIndex(0), MemberIndex(1), MemberIndex(2), MemberIndex(3), MemberIndex(4)}),
            "task/0, task/1#2, task/2 +2 more");
  EXPECT_EQ(job.Describe(MemberIndex(1)), "task/1#2 (pid 17 on gpu-3)");
}

}  // namespace
}  // namespace lockstep::coord

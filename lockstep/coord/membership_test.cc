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

TEST_F(MembershipTest, AStockMemberThatPollsIsLostByThePeriodThatWasSeenOfIt) {
  for (int32_t i = 0; i < 3; ++i) members_.SetPolls(Time(), MemberIndex(i), true);
  members_.HeardHeartbeat(At(50), MemberIndex(0));
  members_.HeardHeartbeat(At(150), MemberIndex(1));
  members_.SetPolls(At(150), MemberIndex(2), false);
  EXPECT_EQ(members_.LostAt(members_.Get(MemberIndex(0))), At(50 + 125)) << "2.5 times 50";
  EXPECT_EQ(members_.SuspectAt(members_.Get(MemberIndex(1))), At(150 + 225));
  EXPECT_EQ(members_.LostAt(members_.Get(MemberIndex(1))), At(150 + 375));
  EXPECT_EQ(members_.LostAt(members_.Get(MemberIndex(2))), At(250)) << "its poll ended then";

  EXPECT_THAT(members_.Overdue(At(174)), IsEmpty());
  EXPECT_EQ(members_.NextDeadline(), At(175));
  EXPECT_THAT(members_.Overdue(At(175)), ElementsAre(IsLoss(0)));
  members_.Fail(At(175), MemberIndex(0), MakeError({}));
  EXPECT_EQ(members_.NextDeadline(), At(210));
  EXPECT_THAT(members_.Overdue(At(250)), ElementsAre(IsLoss(2)));
  members_.Fail(At(250), MemberIndex(2), MakeError({}));
  EXPECT_EQ(members_.NextDeadline(), At(375));
  EXPECT_THAT(members_.Overdue(At(375)), IsEmpty());
  EXPECT_EQ(members_.NextDeadline(), At(525));
  EXPECT_THAT(members_.Overdue(At(525)), ElementsAre(IsLoss(1)));
}

TEST_F(MembershipTest, BeforeItsFirstHeartbeatAPeriodOfTenMinutesIsSupposed) {
  members_.SetPolls(Time(), MemberIndex(1), true);
  const Membership::Member& member = members_.Get(MemberIndex(1));
  EXPECT_EQ(members_.SuspectAt(member), At(60)) << "doubt comes as early as ever";
  EXPECT_EQ(members_.LostAt(member), At(1500));

  members_.HeardHeartbeat(At(601), MemberIndex(1));  // of a client with 1,200 s

  EXPECT_EQ(members_.SuspectAt(member), At(601 * 2.5));
  EXPECT_EQ(members_.LostAt(member), At(601 * 3.5));
}

TEST_F(MembershipTest, APeriodIsTheLongestOfTheLastThreeAndAnHourAtMost) {
  members_.SetPolls(Time(), MemberIndex(1), true);
  const Membership::Member& member = members_.Get(MemberIndex(1));
  const auto period = [&] { return (members_.LostAt(member) - member.last_heard) / 2.5; };
  members_.HeardHeartbeat(At(100), MemberIndex(1));
  members_.HeardHeartbeat(At(100.3), MemberIndex(1));  // again
  EXPECT_EQ(period(), absl::Seconds(100));
  members_.HeardHeartbeat(At(290), MemberIndex(1));  // its process was stopped
  members_.HeardHeartbeat(At(390), MemberIndex(1));
  members_.HeardHeartbeat(At(490), MemberIndex(1));
  EXPECT_EQ(period(), absl::Seconds(190));
  members_.HeardHeartbeat(At(590), MemberIndex(1));
  EXPECT_EQ(period(), absl::Seconds(100));

  members_.HeardHeartbeat(At(36'000), MemberIndex(1));
  EXPECT_EQ(period(), absl::Hours(1));
}

TEST_F(MembershipTest, DeadlinesComeNearerWithThePeriodAndTheEndOfThePoll) {
  for (int32_t i : {0, 2}) members_.Fail(Time(), MemberIndex(i), MakeError({}));
  members_.SetPolls(Time(), MemberIndex(1), true);
  EXPECT_THAT(members_.Overdue(At(60)), IsEmpty());
  EXPECT_EQ(members_.NextDeadline(), At(1500)) << "suspect until then";

  members_.HeardHeartbeat(At(80), MemberIndex(1));
  EXPECT_EQ(members_.NextDeadline(), At(80 + 1.5 * 80)) << "well again";
  members_.SetPolls(At(90), MemberIndex(1), false);
  EXPECT_EQ(members_.NextDeadline(), At(150));
  EXPECT_THAT(members_.Overdue(At(150)), IsEmpty());
  EXPECT_EQ(members_.NextDeadline(), At(190)) << "heartbeat_timeout from the end of the poll";
  members_.Disconnect(At(150), MemberIndex(1));
  members_.Connect(At(151), MemberIndex(1));
  members_.SetPolls(At(151), MemberIndex(1), true);
  EXPECT_EQ(members_.LostAt(members_.Get(MemberIndex(1))), At(1651))
      << "what was seen is forgotten";
}

TEST_F(MembershipTest, NativeMembersAndThoseWithoutAPollKeepHeartbeatTimeout) {
  members_.Disconnect(Time(), MemberIndex(0));
  members_.BeginLife(
      Time(),
      {.member = MemberIndex(0), .incarnation = Incarnation(20), .session = SessionId{7, 7}});
  members_.Connect(Time(), MemberIndex(0));
  for (int32_t i : {0, 1}) members_.HeardHeartbeat(At(99), MemberIndex(i));
  members_.SetPolls(At(99), MemberIndex(0), true);
  members_.SetPolls(At(150), MemberIndex(0), false);

  EXPECT_EQ(members_.LostAt(members_.Get(MemberIndex(0))), At(199));
  EXPECT_EQ(members_.LostAt(members_.Get(MemberIndex(1))), At(199));
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

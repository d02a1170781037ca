#include "lockstep/coord/failure_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/coord/membership.h"

namespace lockstep::coord {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

Time At(double seconds) { return Time() + absl::Seconds(seconds); }

// Through the membership, which says who is watched.
class FailureDetectorTest : public testing::Test {
 protected:
  FailureDetectorTest() {
    for (int32_t i = 0; i < 3; ++i) {
      members_.BeginLife(Time(), MemberIndex(i), Incarnation(10 + i), "peer");
      members_.Connect(Time(), MemberIndex(i));
    }
  }

  static auto IsLoss(int32_t member) {
    return Field(&FailureDetector::Loss::member, MemberIndex(member));
  }

  static auto IsTurn(int32_t member, bool suspect) {
    return AllOf(Field(&FailureDetector::Turn::member, MemberIndex(member)),
                 Field(&FailureDetector::Turn::suspect, suspect));
  }

  Time SuspectAt(MemberIndex member) const {
    return detector_.Of(member).signs.SuspectAt(job_.options.heartbeat_timeout);
  }

  Time LostAt(MemberIndex member) const {
    return detector_.Of(member).LostAt(job_.options.heartbeat_timeout);
  }

  JobRecord job_{CoordinatorOptions{.size = 3}};
  Membership members_{job_};
  FailureDetector& detector_ = members_.detector();
};

TEST_F(FailureDetectorTest, LosesTheSilentExactlyAtTheTimeout) {
  detector_.Heard(At(50), MemberIndex(1));

  EXPECT_THAT(detector_.Overdue(At(99.999)), IsEmpty());
  EXPECT_EQ(detector_.NextDeadline(), At(100));
  EXPECT_THAT(detector_.Overdue(At(100)), ElementsAre(IsLoss(0), IsLoss(2)));

  members_.Fail(At(100), MemberIndex(0), MakeError({}));
  members_.Fail(At(100), MemberIndex(2), MakeError({}));
  EXPECT_EQ(detector_.NextDeadline(), At(110)) << "then the third is suspect";
  EXPECT_EQ(members_.connected(), 1u);
}

TEST_F(FailureDetectorTest, SaysWhoIsSilentForLongBeforeItIsLost) {
  detector_.Heard(At(1), MemberIndex(1));
  EXPECT_EQ(detector_.NextDeadline(), At(60));
  EXPECT_THAT(detector_.Overdue(At(60)), IsEmpty());
  EXPECT_THAT(detector_.TakeTurns(), ElementsAre(IsTurn(0, true), IsTurn(2, true)));
  EXPECT_TRUE(detector_.Of(MemberIndex(0)).suspect);

  detector_.Heard(At(70), MemberIndex(0));

  EXPECT_THAT(detector_.TakeTurns(), ElementsAre(IsTurn(0, false)));
  EXPECT_THAT(detector_.Overdue(At(61)), IsEmpty());
  EXPECT_THAT(detector_.TakeTurns(), ElementsAre(IsTurn(1, true)));
  EXPECT_THAT(detector_.Overdue(At(100)), ElementsAre(IsLoss(2)));
  EXPECT_THAT(detector_.Overdue(At(101)), ElementsAre(IsLoss(2), IsLoss(1)));
  EXPECT_THAT(detector_.TakeTurns(), IsEmpty()) << "they are told of as lost";
  EXPECT_THAT(detector_.Overdue(At(130)), ElementsAre(IsLoss(2), IsLoss(1)));
  EXPECT_THAT(detector_.TakeTurns(), ElementsAre(IsTurn(0, true)));
}

TEST_F(FailureDetectorTest, AStockMemberThatPollsIsLostByThePeriodThatWasSeenOfIt) {
  for (int32_t i = 0; i < 3; ++i) detector_.SetPolls(Time(), MemberIndex(i), true);
  detector_.HeardHeartbeat(At(50), MemberIndex(0));
  detector_.HeardHeartbeat(At(150), MemberIndex(1));
  detector_.SetPolls(At(150), MemberIndex(2), false);
  EXPECT_EQ(LostAt(MemberIndex(0)), At(50 + 125)) << "2.5 times 50";
  EXPECT_EQ(SuspectAt(MemberIndex(1)), At(150 + 225));
  EXPECT_EQ(LostAt(MemberIndex(1)), At(150 + 375));
  EXPECT_EQ(LostAt(MemberIndex(2)), At(250)) << "its poll ended then";

  EXPECT_THAT(detector_.Overdue(At(174)), IsEmpty());
  EXPECT_EQ(detector_.NextDeadline(), At(175));
  EXPECT_THAT(detector_.Overdue(At(175)), ElementsAre(IsLoss(0)));
  members_.Fail(At(175), MemberIndex(0), MakeError({}));
  EXPECT_EQ(detector_.NextDeadline(), At(210));
  EXPECT_THAT(detector_.Overdue(At(250)), ElementsAre(IsLoss(2)));
  members_.Fail(At(250), MemberIndex(2), MakeError({}));
  EXPECT_EQ(detector_.NextDeadline(), At(375));
  EXPECT_THAT(detector_.Overdue(At(375)), IsEmpty());
  EXPECT_EQ(detector_.NextDeadline(), At(525));
  EXPECT_THAT(detector_.Overdue(At(525)), ElementsAre(IsLoss(1)));
}

TEST_F(FailureDetectorTest, BeforeItsFirstHeartbeatAPeriodOfTenMinutesIsSupposed) {
  detector_.SetPolls(Time(), MemberIndex(1), true);
  const MemberIndex member(1);
  EXPECT_EQ(SuspectAt(member), At(60)) << "doubt comes as early as ever";
  EXPECT_EQ(LostAt(member), At(1500));

  detector_.HeardHeartbeat(At(601), MemberIndex(1));  // of a client with 1,200 s

  EXPECT_EQ(SuspectAt(member), At(601 * 2.5));
  EXPECT_EQ(LostAt(member), At(601 * 3.5));
}

TEST_F(FailureDetectorTest, APeriodIsTheLongestOfTheLastThreeAndAnHourAtMost) {
  detector_.SetPolls(Time(), MemberIndex(1), true);
  const MemberIndex member(1);
  const auto period = [&] {
    return (LostAt(member) - detector_.Of(member).signs.last_heard()) / 2.5;
  };
  detector_.HeardHeartbeat(At(100), MemberIndex(1));
  detector_.HeardHeartbeat(At(100.3), MemberIndex(1));  // again
  EXPECT_EQ(period(), absl::Seconds(100));
  detector_.HeardHeartbeat(At(290), MemberIndex(1));  // its process was stopped
  detector_.HeardHeartbeat(At(390), MemberIndex(1));
  detector_.HeardHeartbeat(At(490), MemberIndex(1));
  EXPECT_EQ(period(), absl::Seconds(190));
  detector_.HeardHeartbeat(At(590), MemberIndex(1));
  EXPECT_EQ(period(), absl::Seconds(100));

  detector_.HeardHeartbeat(At(36'000), MemberIndex(1));
  EXPECT_EQ(period(), absl::Hours(1));
}

TEST_F(FailureDetectorTest, DeadlinesComeNearerWithThePeriodAndTheEndOfThePoll) {
  for (int32_t i : {0, 2}) members_.Fail(Time(), MemberIndex(i), MakeError({}));
  detector_.SetPolls(Time(), MemberIndex(1), true);
  EXPECT_THAT(detector_.Overdue(At(60)), IsEmpty());
  EXPECT_EQ(detector_.NextDeadline(), At(1500)) << "suspect until then";

  detector_.HeardHeartbeat(At(80), MemberIndex(1));
  EXPECT_EQ(detector_.NextDeadline(), At(80 + 1.5 * 80)) << "well again";
  detector_.SetPolls(At(90), MemberIndex(1), false);
  EXPECT_EQ(detector_.NextDeadline(), At(150));
  EXPECT_THAT(detector_.Overdue(At(150)), IsEmpty());
  EXPECT_EQ(detector_.NextDeadline(), At(190)) << "heartbeat_timeout from the end of the poll";
  members_.Disconnect(At(150), MemberIndex(1));
  members_.Connect(At(151), MemberIndex(1));
  detector_.SetPolls(At(151), MemberIndex(1), true);
  EXPECT_EQ(LostAt(MemberIndex(1)), At(1651)) << "what was seen is forgotten";
}

TEST_F(FailureDetectorTest, NativeMembersAndThoseWithoutAPollKeepHeartbeatTimeout) {
  members_.Disconnect(Time(), MemberIndex(0));
  members_.BeginLife(
      Time(),
      {.member = MemberIndex(0), .incarnation = Incarnation(20), .session = SessionId{7, 7}});
  members_.Connect(Time(), MemberIndex(0));
  for (int32_t i : {0, 1}) detector_.HeardHeartbeat(At(99), MemberIndex(i));
  detector_.SetPolls(At(99), MemberIndex(0), true);
  detector_.SetPolls(At(150), MemberIndex(0), false);

  EXPECT_EQ(LostAt(MemberIndex(0)), At(199));
  EXPECT_EQ(LostAt(MemberIndex(1)), At(199));
}

TEST_F(FailureDetectorTest, SaysNothingOfTroubleThatIsOverAlready) {
  detector_.ConnectionBroke(At(7), MemberIndex(2));
  detector_.ConnectionBack(At(7), MemberIndex(2));
  detector_.ConnectionSilent(At(7), MemberIndex(1));
  members_.Fail(At(7), MemberIndex(1), MakeError({}));

  EXPECT_THAT(detector_.TakeTurns(), ElementsAre(IsTurn(2, false)));
}

TEST_F(FailureDetectorTest, LosesABrokenConnectionAfterItsGrace) {
  detector_.ConnectionBroke(At(7), MemberIndex(2));
  EXPECT_EQ(detector_.NextDeadline(), At(7.2));
  EXPECT_THAT(detector_.BrokenSince(At(6)), IsEmpty());
  EXPECT_THAT(detector_.BrokenSince(At(7)), ElementsAre(IsLoss(2)));

  detector_.ConnectionBack(Time(), MemberIndex(2));

  EXPECT_EQ(detector_.NextDeadline(), At(60));
  EXPECT_THAT(detector_.Overdue(At(8)), IsEmpty());
}

TEST_F(FailureDetectorTest, OrdersLossesByWhenTheirTroubleBegan) {
  detector_.ConnectionBroke(At(7.1), MemberIndex(0));
  detector_.ConnectionBroke(At(7.0), MemberIndex(2));

  EXPECT_THAT(detector_.Overdue(At(8)), ElementsAre(IsLoss(2), IsLoss(0)));
}

}  // namespace
}  // namespace lockstep::coord

#include "lockstep/coord/member_losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::coord {
namespace {

using ::testing::HasSubstr;

Time At(double seconds) { return Time() + absl::Seconds(seconds); }

class MemberLossesTest : public testing::Test {
 protected:
  MemberLossesTest() {
    for (int32_t i = 0; i < 3; ++i) {
      membership_.BeginLife(Time(), MemberIndex(i), Incarnation(10 + i), "peer");
      membership_.Connect(Time(), MemberIndex(i));
    }
  }

  MemberLosses List(std::vector<MemberLoss> member_losses) {
    return MemberLosses(job_, membership_, At(9), std::move(member_losses));
  }

  static MemberLoss Of(int32_t member, double since, std::string text) {
    return {MemberIndex(member), At(since), MakeError({.message = std::move(text)})};
  }

  JobRecord job_{CoordinatorOptions{.size = 3}};
  Membership membership_{job_};
};

TEST_F(MemberLossesTest, TheCauseIsTheMemberWhoseTroubleBeganFirst) {
  const MemberLosses list = List({Of(0, 5, "late"), Of(2, 4, "early")});

  EXPECT_TRUE(list.fatal());
  EXPECT_EQ(list.cause().member, MemberIndex(2));
  EXPECT_EQ(list.Combined()->message, "early; also lost: task/0#1");
}

TEST_F(MemberLossesTest, AMemberWhoseConnectionBrokeBeforeIsTheCauseOfAFatalOne) {
  membership_.detector().ConnectionBroke(At(3), MemberIndex(1));

  const MemberLosses list = List({Of(0, 5, "raised")});

  ASSERT_EQ(list.all().size(), 2u);
  EXPECT_EQ(list.cause().member, MemberIndex(1));
  EXPECT_THAT(list.Combined()->message, HasSubstr("its connection broke 6s ago"));
}

TEST_F(MemberLossesTest, WhatTheCallerKnowsOfABrokenMemberIsKept) {
  membership_.detector().ConnectionBroke(At(3), MemberIndex(1));

  const MemberLosses list = List({Of(1, 5, "killed")});

  ASSERT_EQ(list.all().size(), 1u);
  EXPECT_EQ(list.cause().since, At(3));
  EXPECT_EQ(list.Combined()->message, "killed");
}

TEST_F(MemberLossesTest, AMemberThatMayComeBackIsNoCauseBesideOneThatMayNot) {
  job_.recoverable[0] = 1;
  membership_.detector().ConnectionBroke(At(3), MemberIndex(1));

  EXPECT_FALSE(List({Of(0, 1, "first")}).fatal());
  EXPECT_EQ(List({Of(0, 1, "first")}).all().size(), 1u) << "nobody is given up with it";
  EXPECT_EQ(List({Of(0, 1, "first"), Of(2, 5, "second")}).cause().member, MemberIndex(1));
}

}  // namespace
}  // namespace lockstep::coord

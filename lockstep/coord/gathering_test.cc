#include "lockstep/coord/gathering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::coord {
namespace {

using ::testing::ElementsAre;

Gathering Of(std::vector<int32_t> members) {
  std::vector<MemberIndex> indices(members.begin(), members.end());
  return Gathering(MakeParticipants(indices), Time(), Time::Infinite());
}

TEST(Gathering, IsCompleteWhenEveryParticipantWaits) {
  Gathering gathering = Of({0, 2});

  EXPECT_EQ(gathering.Arrive(MemberIndex(2), CallId(1)), std::nullopt);
  EXPECT_FALSE(gathering.complete());
  EXPECT_THAT(gathering.Awaited(), ElementsAre(MemberIndex(0)));

  EXPECT_EQ(gathering.Arrive(MemberIndex(0), CallId(2)), std::nullopt);
  EXPECT_TRUE(gathering.complete());
  EXPECT_EQ(gathering.first(), MemberIndex(2));
}

TEST(Gathering, KeepsTheNewestCallOfAMember) {
  Gathering gathering = Of({0, 1});
  gathering.Arrive(MemberIndex(0), CallId(1));

  EXPECT_EQ(gathering.Arrive(MemberIndex(0), CallId(2)), CallId(1));

  EXPECT_EQ(gathering.arrived(), 1u);
  ASSERT_EQ(gathering.Waiting().size(), 1u);
  EXPECT_EQ(gathering.Waiting()[0].call, CallId(2));
}

TEST(Gathering, DoesNotCountWhoWithdrew) {
  Gathering gathering = Of({0, 1});
  gathering.Arrive(MemberIndex(0), CallId(1));

  EXPECT_EQ(gathering.Withdraw(MemberIndex(0)), CallId(1));
  EXPECT_EQ(gathering.Withdraw(MemberIndex(0)), std::nullopt);

  EXPECT_TRUE(gathering.empty());
  gathering.Arrive(MemberIndex(1), CallId(2));
  EXPECT_FALSE(gathering.complete());
}

TEST(Gathering, ListsParticipantsOnceAndInOrder) {
  Gathering gathering = Of({3, 1, 3});

  EXPECT_EQ(gathering.size(), 2u);
  EXPECT_TRUE(gathering.Includes(MemberIndex(1)));
  EXPECT_FALSE(gathering.Includes(MemberIndex(2)));
  EXPECT_THAT(gathering.Awaited(), ElementsAre(MemberIndex(1), MemberIndex(3)));
}

}  // namespace
}  // namespace lockstep::coord

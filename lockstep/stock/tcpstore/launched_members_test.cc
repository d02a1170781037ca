#include "lockstep/stock/tcpstore/launched_members.h"

#include "gtest/gtest.h"

namespace lockstep::tcpstore {
namespace {

TEST(LaunchedMembers, AllHaveEndedWhenEachRankWasStartedAndEnded) {
  LaunchedMembers members(2);
  members.ProcessStarted(0, 100);
  EXPECT_TRUE(members.ProcessEnded(0, 100));
  EXPECT_FALSE(members.AllEnded()) << "member 1 may be of another node";
  members.ProcessStarted(1, 101);
  EXPECT_FALSE(members.AllEnded());
  EXPECT_TRUE(members.ProcessEnded(1, 101));
  EXPECT_TRUE(members.AllEnded());
}

TEST(LaunchedMembers, TheEndOfAnOlderProcessOfAMemberIsLate) {
  LaunchedMembers members(1);
  members.ProcessStarted(0, 100);
  members.ProcessStarted(0, 200);
  EXPECT_FALSE(members.ProcessEnded(0, 100));
  EXPECT_FALSE(members.AllEnded());
}

TEST(LaunchedMembers, AMemberThatTheJobDoesNotHaveIsIgnored) {
  LaunchedMembers members(1);
  members.ProcessStarted(1, 100);
  members.ProcessStarted(-1, 100);
  EXPECT_FALSE(members.launched());
  EXPECT_FALSE(members.ProcessEnded(1, 100));
}

TEST(LaunchedMembers, ASmallerRunEndsWithItsOwnMembers) {
  LaunchedMembers members(4);
  members.RunBegan(1);
  members.Launched();
  members.ProcessStarted(3, 100);
  EXPECT_TRUE(members.ProcessEnded(3, 100));
  EXPECT_TRUE(members.AllEnded());
  members.Begin();
  members.Launched();
  members.ProcessStarted(3, 200);
  EXPECT_TRUE(members.ProcessEnded(3, 200));
  EXPECT_FALSE(members.AllEnded()) << "the size was of one attempt";
}

}  // namespace
}  // namespace lockstep::tcpstore

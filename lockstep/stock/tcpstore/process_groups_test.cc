#include "lockstep/stock/tcpstore/process_groups.h"

#include <string>

#include "gtest/gtest.h"

namespace lockstep::tcpstore {
namespace {

constexpr char kKey[] = "/default_pg/0//cpu//0/0";

class ProcessGroupsTest : public testing::Test {
 protected:
  // The process makes a client and asks for a key of the group. True: as the first of a new one.
  bool Joins(uint64_t connection, uint32_t pid) {
    groups_.Came(ConnectionId(connection), {"10.0.0.1", pid});
    return groups_.Asks(ConnectionId(connection), Get{kKey});
  }
  void Leaves(uint64_t connection) { groups_.Left(ConnectionId(connection)); }

  ProcessGroups groups_{4};
};

TEST_F(ProcessGroupsTest, TheFirstOfItsProcessesToComeAgainBeginsTheNextGroup) {
  EXPECT_FALSE(Joins(1, 100));
  EXPECT_FALSE(Joins(2, 101));
  Leaves(1);
  EXPECT_TRUE(Joins(3, 100)) << "though the other has yet to leave the one before";
  Leaves(2);
  EXPECT_FALSE(Joins(4, 101)) << "it joins the one that has begun";
  Leaves(3);
  Leaves(4);
  EXPECT_TRUE(Joins(5, 101));
  EXPECT_FALSE(Joins(6, 100));
}

TEST_F(ProcessGroupsTest, WhoAsksForNoKeyOfTheGroupIsInNone) {
  for (const uint64_t connection : {1, 2}) {
    groups_.Came(ConnectionId(connection), {"10.0.0.1", 100});
    EXPECT_FALSE(groups_.Asks(ConnectionId(connection), Set{"/cfg", "hello"}));
    Leaves(connection);
  }
  EXPECT_FALSE(Joins(3, 100)) << "a store of its own was no group";
}

TEST_F(ProcessGroupsTest, ASecondClientOfWhoIsInTheGroupBeginsNone) {
  EXPECT_FALSE(Joins(1, 100));
  EXPECT_FALSE(Joins(2, 100)) << "or another container's process of this pid";
  Leaves(2);
  EXPECT_FALSE(Joins(3, 100));
  Leaves(1);
  Leaves(3);
  EXPECT_TRUE(Joins(4, 100));
}

TEST_F(ProcessGroupsTest, AClientThatWasNotMadeForAGroupIsInNone) {
  EXPECT_FALSE(groups_.Asks(ConnectionId(1), Get{kKey}));
  EXPECT_FALSE(Joins(2, 100));
  Leaves(1);
  Leaves(2);
  EXPECT_FALSE(groups_.Asks(ConnectionId(3), Get{kKey}));
  EXPECT_TRUE(Joins(4, 100));
}

TEST_F(ProcessGroupsTest, MoreProcessesThanAreRememberedBeginNone) {
  for (uint64_t pid = 1; pid <= 5; ++pid) {
    EXPECT_FALSE(Joins(pid, static_cast<uint32_t>(pid)));
    Leaves(pid);
  }
  EXPECT_FALSE(Joins(6, 5));
  EXPECT_TRUE(Joins(7, 4));
}

TEST_F(ProcessGroupsTest, OnceAllIsForgottenNobodyHasBeenInAGroup) {
  EXPECT_FALSE(Joins(1, 100));
  groups_.Clear();
  EXPECT_FALSE(Joins(2, 100));
}

TEST_F(ProcessGroupsTest, EveryCommandWithAKeyOfTheGroupAsksForIt) {
  const Keys keys = {kKey, "/cfg"};
  for (const Command& command :
       {Command(Set{kKey, "a"}), Command(CompareSet{kKey, "", "a"}), Command(Get{kKey}),
        Command(Add{kKey, 1}), Command(Check{keys}), Command(Wait{keys}), Command(DeleteKey{kKey}),
        Command(Append{kKey, "a"}), Command(MultiGet{keys}), Command(MultiSet{{{kKey, "a"}}}),
        Command(QueuePush{kKey, "a"}), Command(QueuePop{kKey}), Command(QueueLength{kKey}),
        Command(Barrier{kKey, 2})}) {
    EXPECT_TRUE(IsOfGroup(command)) << command.index();
  }
  for (const Command& command :
       {Command(Get{"/cfg"}), Command(Get{""}), Command(Check{}), Command(MultiSet{}),
        Command(Ping{1}), Command(CountKeys{}), Command(ListKeys{}), Command(CancelWait{})}) {
    EXPECT_FALSE(IsOfGroup(command)) << command.index();
  }
}

}  // namespace
}  // namespace lockstep::tcpstore

// Nodes whose hosts are given up, and are known to have stopped later.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/launch/node_group/node_group_suite_test.h"

namespace lockstep::node_group {
namespace {

using testing::HasSubstr;

TEST_F(NodeGroupTest, ANodeOnALostHostIsWaitedForUntilItHasStopped) {
  template_.max_restarts = 1;
  Come(1);
  Come(2);
  Come(3);  // a spare
  Do(HostLost{NodeId(2), "host h2 has not been heard for 3.1s"});
  EXPECT_EQ(nodes_[1].last().kind, Kind::kCalledOff);
  EXPECT_THAT(nodes_[1].last().why, HasSubstr("is lost: host h2 has not been heard for 3.1s"));
  Over(1, 143);
  // Its processes may still run.
  nodes_[2].polls = false;
  Do(NodeBroke{.node = NodeId(2), .grace = absl::Seconds(30)});
  Pass(absl::Seconds(10));
  EXPECT_EQ(Begun(3), 0);
  Do(HostStopped{NodeId(2)});
  EXPECT_EQ(Begun(1), 2);
  EXPECT_EQ(Begun(3), 1);
}

TEST_F(NodeGroupTest, ANodeThatIsNeverSaidToHaveStoppedIsGivenUpAllTheSame) {
  template_.max_restarts = 1;
  Come(1);
  Come(2);
  Come(3);
  nodes_[2].polls = false;
  Do(HostLost{NodeId(2), "host h2 has not been heard for 3.1s"});
  Over(1, 143);
  Pass(absl::Seconds(29));
  EXPECT_EQ(Begun(3), 0);
  Pass(absl::Seconds(2));
  EXPECT_EQ(Begun(3), 1);
}

TEST_F(NodeGroupTest, ALauncherThatIsHeardAfterItsHostWasLostIsWaitedFor) {
  template_.max_restarts = 1;
  Come(1);
  Come(2);
  Come(3);
  Do(HostLost{NodeId(2), "host h2 has not been heard for 3.1s"});
  Poll(2);
  Over(1, 143);
  Do(HostStopped{NodeId(2)});
  EXPECT_EQ(Begun(3), 0) << "it has not said that its processes have ended";
  Over(2, 143);
  EXPECT_EQ(Begun(1), 2);
}

TEST_F(NodeGroupTest, ASuccessorOnALostHostsRankWaitsUntilThatHasStopped) {
  template_.max_restarts = 1;
  Come(1, 0);
  Come(2, 1);
  nodes_[2].polls = false;
  Do(HostLost{NodeId(2), "host h2 has not been heard for 3.1s"});
  Over(1, 143);
  Come(3, 1);
  Pass(absl::Seconds(5));
  EXPECT_EQ(Begun(3), 0);
  Do(HostStopped{NodeId(2)});
  EXPECT_EQ(Begun(3), 1);
}

TEST_F(NodeGroupTest, ALostHostOfANodeInReadinessChangesNothing) {
  Come(1);
  Come(2);
  Come(3);
  Do(HostLost{NodeId(3), "host h3 has not been heard for 3.1s"});
  EXPECT_EQ(Begun(1), 1);
  EXPECT_EQ(nodes_[1].last().kind, Kind::kBegin);
  EXPECT_THAT(nodes_[3].refusal, HasSubstr("is lost: host h3"));
  Do(HostStopped{NodeId(3)});
  Do(HostLost{NodeId(9), "nobody"});
}

TEST_F(NodeGroupTest, WhoseHostIsWatchedIsNotGoneByABrokenLink) {
  Come(1);
  Come(2);
  nodes_[2].call = CallId();
  Do(NodeBroke{.node = NodeId(2), .grace = absl::Seconds(30)});
  Pass(absl::Seconds(10));
  EXPECT_EQ(nodes_[1].last().kind, Kind::kBegin);
  Poll(2);
  Pass(absl::Seconds(60));
  EXPECT_EQ(nodes_[1].last().kind, Kind::kBegin);
}

}  // namespace
}  // namespace lockstep::node_group

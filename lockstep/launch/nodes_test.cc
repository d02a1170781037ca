#include "lockstep/launch/nodes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Detected kNobody = {.nodes = 1};
const Detected kSlurm = {.by = "slurm", .nodes = 4, .node = 3};

std::string Refusal(const NodesWanted& wanted, const Detected& detected = kNobody,
                    const HostDevices& devices = {}) {
  return std::string(SettleNodes(wanted, detected, devices).status().message());
}

TEST(NodesTest, OneNodeUnlessSomebodySaysOtherwise) {
  const auto nodes = SettleNodes({.processes = 4}, kNobody, {});
  ASSERT_TRUE(nodes.ok());
  EXPECT_TRUE(nodes->alone());
  EXPECT_EQ(nodes->processes, 4);
  EXPECT_EQ(SettleNodes({}, kNobody, {})->processes, 0) << "the job's size";
}

TEST(NodesTest, WhatASchedulerSaysIsTaken) {
  const auto nodes = SettleNodes({.per_node = "8"}, kSlurm, {});
  ASSERT_TRUE(nodes.ok());
  EXPECT_EQ(nodes->least, 4);
  EXPECT_EQ(nodes->most, 4);
  EXPECT_EQ(nodes->node, 3);
  EXPECT_EQ(nodes->processes, 8);
  EXPECT_EQ(SettleNodes({}, kSlurm, {})->processes, 1);
}

TEST(NodesTest, WhatIsSaidWins) {
  const auto nodes = SettleNodes({.per_node = "2", .nodes = "2:6", .node = 5}, kSlurm, {});
  ASSERT_TRUE(nodes.ok());
  EXPECT_EQ(nodes->least, 2);
  EXPECT_EQ(nodes->most, 6);
  EXPECT_EQ(nodes->node, 5);
  EXPECT_TRUE(SettleNodes({.processes = 3, .nodes = "1"}, kSlurm, {})->alone());
  EXPECT_FALSE(SettleNodes({.per_node = "2", .nodes = "1:2"}, kNobody, {})->node.has_value());
}

TEST(NodesTest, SlotsOfAHostsFile) {
  Detected hosts = {.by = "hosts file", .nodes = 2, .node = 1, .processes = 8};
  EXPECT_EQ(SettleNodes({}, hosts, {})->processes, 8);
  EXPECT_EQ(SettleNodes({.per_node = "3"}, hosts, {})->processes, 3);
  hosts.node = -1;
  hosts.why = {"none is called login"};
  EXPECT_THAT(Refusal({}, hosts), HasSubstr("none is called login"));
  EXPECT_EQ(SettleNodes({.node = 1}, hosts, {})->node, 1);
}

TEST(NodesTest, DevicesAreCounted) {
  const HostDevices devices = {.cpus = 16, .gpus = 4};
  EXPECT_EQ(SettleNodes({.per_node = "auto"}, kNobody, devices)->processes, 4);
  EXPECT_EQ(SettleNodes({.per_node = "gpu"}, kNobody, devices)->processes, 4);
  EXPECT_EQ(SettleNodes({.per_node = "cpu"}, kNobody, devices)->processes, 16);
  EXPECT_EQ(SettleNodes({.per_node = "auto"}, kNobody, {.cpus = 2})->processes, 2);
  EXPECT_THAT(Refusal({.per_node = "gpu"}), HasSubstr("no GPU is seen"));
}

TEST(NodesTest, TheTextSaysHowManyAndWhichOne) {
  EXPECT_EQ(TextOf({.processes = 3}, {}), "one node");
  EXPECT_EQ(TextOf({.processes = 3}, {.nodes = "1"}), "one node by --nnodes");
  EXPECT_EQ(TextOf({.least = 4, .most = 4, .node = 3}, {}), "4 nodes, of which this is node 3");
  EXPECT_THAT(TextOf({.least = 2, .most = 2}, {.nodes = "2"}),
              HasSubstr("2 nodes by --nnodes; which of them this is, they settle"));
  EXPECT_THAT(TextOf({.least = 2, .most = 4, .node = 1}, {.nodes = "2:4"}),
              HasSubstr("2 to 4 nodes by --nnodes; which of them this is, they settle"));
}

TEST(NodesTest, AFixedNumberAndARankSettleThePlace) {
  EXPECT_THAT(
      PossiblePlacements({.processes = 3, .least = 2, .most = 2, .node = 1}),
      ElementsAre(Placement{.size = 6, .first = 3, .local_size = 3, .node = 1, .nodes = 2}));
  EXPECT_THAT(
      PossiblePlacements({.processes = 3}),
      ElementsAre(Placement{.size = 3, .first = 0, .local_size = 3, .node = 0, .nodes = 1}));
}

TEST(NodesTest, PlacesThatAreNotSettledDifferInAllThatIsNot) {
  EXPECT_THAT(
      PossiblePlacements({.processes = 3, .least = 2, .most = 2}),
      ElementsAre(Placement{.size = 6, .first = 0, .local_size = 3, .node = 0, .nodes = 2},
                  Placement{.size = 6, .first = 3, .local_size = 3, .node = 1, .nodes = 2}));
  // Who is missing may be of a lower rank.
  EXPECT_THAT(
      PossiblePlacements({.processes = 2, .least = 1, .most = 4, .node = 3}),
      ElementsAre(Placement{.size = 2, .first = 0, .local_size = 2, .node = 0, .nodes = 1},
                  Placement{.size = 8, .first = 6, .local_size = 2, .node = 3, .nodes = 4}));
}

TEST(NodesTest, WhatMakesNoSenseIsRefusedWithWhatToSay) {
  EXPECT_THAT(Refusal({.processes = 4, .nodes = "2"}), HasSubstr("--nproc-per-node says"));
  EXPECT_THAT(Refusal({.processes = 4, .per_node = "3"}), HasSubstr("contradict"));
  EXPECT_THAT(Refusal({.per_node = "none"}), HasSubstr("auto, cpu or gpu"));
  EXPECT_THAT(Refusal({.per_node = "0"}), HasSubstr("from 1"));
  EXPECT_THAT(Refusal({.nodes = "2", .node = 2}), HasSubstr("from 0 to 1"));
  EXPECT_THAT(Refusal({}, {.by = "kubernetes"}), HasSubstr("--nnodes says it"));
  for (const char* wrong : {"0", "3:2", "a", "1:", ":2", "1:2:3", "-1"}) {
    EXPECT_THAT(Refusal({.nodes = wrong}), HasSubstr("MIN:MAX")) << wrong;
  }
}

}  // namespace
}  // namespace lockstep::launch

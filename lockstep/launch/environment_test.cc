#include "lockstep/launch/environment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

// Process 1 of the second of two nodes with two processes each.
RunEnvironment RunOf(Environment inherited) {
  return {.inherited = std::move(inherited),
          .address = {.job = "digits",
                      .link = "10.0.0.1:7070",
                      .grpc = "10.0.0.1:27002",
                      .store = "10.0.0.1:27003"},
          .role = "trainer",
          .run_id = "r1",
          .placement = {.size = 4, .first = 2, .local_size = 2, .node = 1, .nodes = 2},
          .attempt = {.restarts = 1, .max_restarts = 3, .number = std::nullopt}};
}

Environment Of(Environment inherited) { return MemberEnvironment(RunOf(std::move(inherited)), 0); }

TEST(EnvironmentTest, EveryVariableOfTheTable) {
  RunEnvironment run = RunOf({{"HOME", "/home/kim"}});
  run.attempt.number = 2;
  run.error_folder = "/tmp/run";
  run.tensorflow = {"a:1", "a:2", "b:1", "b:2"};
  run.extra = {{"NCCL_DEBUG", "INFO"}, {"ROLE_NAME", "mine"}};
  EXPECT_THAT(
      Format(MemberEnvironment(run, 1)),
      UnorderedElementsAre(
          "HOME=/home/kim", "LOCKSTEP_COORDINATOR=10.0.0.1:7070", "LOCKSTEP_JOB=digits",
          "LOCKSTEP_INDEX=3", "LOCKSTEP_SIZE=4", "LOCKSTEP_ROLE=trainer", "LOCKSTEP_ATTEMPT=2",
          "LOCKSTEP_RUN_ID=r1", "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
          "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "NODE_RANK=1", "ROLE_NAME=mine", "ROLE_RANK=3",
          "ROLE_WORLD_SIZE=4", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=27003",
          "TORCHELASTIC_USE_AGENT_STORE=True", "TORCHELASTIC_RUN_ID=digits",
          "TORCHELASTIC_RESTART_COUNT=1", "TORCHELASTIC_MAX_RESTARTS=3",
          "TORCHELASTIC_ERROR_FILE=/tmp/run/error-1-3.json", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1",
          "OMP_NUM_THREADS=1",
          "TF_CONFIG={\"cluster\": {\"worker\": [\"a:1\", \"a:2\", \"b:1\", \"b:2\"]}, "
          "\"task\": {\"type\": \"worker\", \"index\": 3}}",
          "JAX_COORDINATOR_BIND_ADDRESS=127.0.0.1:0", "JAX_COORDINATOR_ADDRESS=10.0.0.1:27002",
          "JAX_NUM_PROCESSES=4", "JAX_PROCESS_ID=3", "OMPI_MCA_orte_hnp_uri=lockstep",
          "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_LOCAL_RANK=1",
          "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PYTHONUNBUFFERED=1", "NCCL_DEBUG=INFO"));
}

TEST(EnvironmentTest, WithoutAStoreTorchIsSentNowhere) {
  RunEnvironment run = RunOf({{"MASTER_ADDR", "elsewhere"}});
  run.address.store = "";
  const Environment environment = MemberEnvironment(run, 0);
  EXPECT_EQ(environment.at("MASTER_ADDR"), "elsewhere");
  EXPECT_FALSE(environment.contains("MASTER_PORT"));
  EXPECT_FALSE(environment.contains("TORCHELASTIC_USE_AGENT_STORE"));
}

TEST(EnvironmentTest, AStoreOfSixColonsIsTakenApart) {
  RunEnvironment run = RunOf({});
  run.address.store = "[fd00::1]:4711";
  EXPECT_EQ(MemberEnvironment(run, 0).at("MASTER_ADDR"), "fd00::1");
  EXPECT_EQ(MemberEnvironment(run, 0).at("MASTER_PORT"), "4711");
}

TEST(EnvironmentTest, ThreadsAreLimitedOnlyWhereSeveralShareAHostAndNobodySaidHowMany) {
  EXPECT_EQ(Of({{"OMP_NUM_THREADS", "8"}}).at("OMP_NUM_THREADS"), "8");
  EXPECT_FALSE(LimitsThreads(RunOf({{"OMP_NUM_THREADS", "8"}})));
  RunEnvironment one = RunOf({});
  one.placement.local_size = 1;
  EXPECT_FALSE(MemberEnvironment(one, 0).contains("OMP_NUM_THREADS"));
}

TEST(EnvironmentTest, WhatAnMpiLauncherSaidOfUsIsNotPassedOn) {
  const Environment environment =
      Of({{"PMI_SIZE", "2"}, {"PMIX_RANK", "1"}, {"MV2_COMM_WORLD_RANK", "1"}, {"PMIX_ID", "x"}});
  EXPECT_FALSE(environment.contains("PMI_SIZE"));
  EXPECT_FALSE(environment.contains("PMIX_RANK"));
  EXPECT_FALSE(environment.contains("MV2_COMM_WORLD_RANK"));
  EXPECT_TRUE(environment.contains("PMIX_ID"));
}

TEST(EnvironmentTest, OwnVariablesReplaceInheritedOnesButNotPythonUnbuffered) {
  const Environment environment =
      Of({{"LOCKSTEP_INDEX", "7"}, {"OMPI_COMM_WORLD_RANK", "9"}, {"PYTHONUNBUFFERED", ""}});
  EXPECT_EQ(environment.at("LOCKSTEP_INDEX"), "2");
  EXPECT_EQ(environment.at("OMPI_COMM_WORLD_RANK"), "2");
  EXPECT_EQ(environment.at("PYTHONUNBUFFERED"), "");
}

TEST(EnvironmentTest, ProxyIsBypassedForTheCoordinator) {
  const Environment environment =
      Of({{"HTTPS_PROXY", "http://proxy:3128"}, {"no_proxy", "localhost, .corp"}});
  EXPECT_EQ(environment.at("no_proxy"), "localhost, .corp,127.0.0.1,::1,10.0.0.1");
  EXPECT_EQ(environment.at("NO_PROXY"), "127.0.0.1,localhost,::1,10.0.0.1");
  EXPECT_FALSE(environment.contains("no_grpc_proxy"));
}

TEST(EnvironmentTest, GrpcsOwnExceptionListIsExtendedWhereItIsUsed) {
  const Environment environment =
      Of({{"http_proxy", "http://proxy:3128"}, {"no_grpc_proxy", ".corp"}});
  EXPECT_EQ(environment.at("no_grpc_proxy"), ".corp,127.0.0.1,localhost,::1,10.0.0.1");
}

TEST(EnvironmentTest, RunWithinARunCarriesBothIds) {
  EXPECT_EQ(Of({{"LOCKSTEP_RUN_ID", "outer"}}).at("LOCKSTEP_RUN_ID"), "outer:r1");
}

TEST(EnvironmentTest, TheAttemptIsForWhoeverCountsThem) {
  EXPECT_EQ(Of({{"LOCKSTEP_ATTEMPT", "3"}}).at("LOCKSTEP_ATTEMPT"), "3");
  EXPECT_FALSE(Of({}).contains("LOCKSTEP_ATTEMPT"));
}

TEST(EnvironmentTest, AServerOfTheRunHearsNothingOfOthers) {
  EXPECT_THAT(WithoutOtherServers({{"HOME", "/home/kim"},
                                   {"LOCKSTEP_ATTEMPT", "3"},
                                   {"LOCKSTEP_CONFIG", "/etc/lockstep.yaml"},
                                   {"LOCKSTEP_RUN_ID", "outer"},
                                   {"LOCKSTEP_SERVER", "/opt/lockstep-server"},
                                   {"LOCKSTEP_SERVER_HTTP", "127.0.0.1:9090"},
                                   {"LOCKSTEP_SERVER_STATE", "/var/lib/lockstep"}}),
              ElementsAre(Pair("HOME", "/home/kim"), Pair("LOCKSTEP_RUN_ID", "outer"),
                          Pair("LOCKSTEP_SERVER", "/opt/lockstep-server")));
}

TEST(EnvironmentTest, ParsesAndFormats) {
  const char* strings[] = {"B=1=2", "A=", "odd", "B=3", nullptr};
  EXPECT_THAT(Format(ParseEnvironment(strings)), ElementsAre("A=", "B=1=2"));
}

}  // namespace
}  // namespace lockstep::launch

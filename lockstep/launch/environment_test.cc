#include "lockstep/launch/environment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

const JobAddress kAddress = {.job = "digits", .link = "10.0.0.1:7070", .grpc = "10.0.0.1:27002"};

Environment Of(Environment inherited) {
  return MemberEnvironment(std::move(inherited), kAddress, "trainer", MemberIndex(2), 4, "r1");
}

TEST(EnvironmentTest, EveryVariableOfTheTable) {
  EXPECT_THAT(
      Of({{"HOME", "/home/kim"}}),
      UnorderedElementsAre(
          Pair("HOME", "/home/kim"), Pair("LOCKSTEP_COORDINATOR", "10.0.0.1:7070"),
          Pair("LOCKSTEP_JOB", "digits"), Pair("LOCKSTEP_INDEX", "2"), Pair("LOCKSTEP_SIZE", "4"),
          Pair("LOCKSTEP_ROLE", "trainer"), Pair("LOCKSTEP_RUN_ID", "r1"),
          Pair("JAX_COORDINATOR_BIND_ADDRESS", "127.0.0.1:0"),
          Pair("JAX_COORDINATOR_ADDRESS", "10.0.0.1:27002"), Pair("JAX_NUM_PROCESSES", "4"),
          Pair("JAX_PROCESS_ID", "2"), Pair("OMPI_MCA_orte_hnp_uri", "lockstep"),
          Pair("OMPI_COMM_WORLD_SIZE", "4"), Pair("OMPI_COMM_WORLD_RANK", "2"),
          Pair("OMPI_COMM_WORLD_LOCAL_RANK", "2"), Pair("PYTHONUNBUFFERED", "1")));
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

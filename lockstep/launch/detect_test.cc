#include "lockstep/launch/detect.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<Detected> Detect(const Environment& environment, std::string host = "host") {
  return DetectCluster({.environment = &environment, .host_name = std::move(host)});
}

const Environment kSlurm = {{"SLURM_JOB_ID", "77"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_PROCID", "3"},
                            {"SLURM_STEP_NUM_TASKS", "4"},
                            {"SLURM_STEP_NODELIST", "gpu[03-05,07],login1"},
                            {"SLURM_NTASKS", "9"}};

TEST(DetectTest, NobodyMeansOneNode) {
  const auto found = Detect({{"HOME", "/home/kim"}});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->by, "");
  EXPECT_EQ(found->nodes, 1);
  EXPECT_EQ(found->node, 0);
  EXPECT_THAT(found->why, ElementsAre(HasSubstr("no scheduler is seen")));
}

TEST(DetectTest, ATaskOfASlurmStepIsANode) {
  const auto found = Detect(kSlurm);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->by, "slurm");
  EXPECT_EQ(found->nodes, 4) << "the step's tasks, not the job's";
  EXPECT_EQ(found->node, 3);
  EXPECT_EQ(found->coordinator_host, "gpu03");
  EXPECT_EQ(found->run_name, "slurm-77.0");
}

TEST(DetectTest, AShellOnANodeOfSlurmIsNoStep) {
  for (const char* missing :
       {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NODELIST"}) {
    Environment some = kSlurm;
    some.erase(missing);
    EXPECT_EQ(Detect(some)->by, "") << missing;
  }
}

TEST(DetectTest, ARankBeyondItsSizeIsToldWithBothVariables) {
  Environment wrong = kSlurm;
  wrong["SLURM_PROCID"] = "4";
  const auto found = Detect(wrong);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(found.status().message()),
              testing::AllOf(HasSubstr("SLURM_PROCID='4'"), HasSubstr("SLURM_STEP_NUM_TASKS='4'"),
                             HasSubstr("--node-rank")));
  wrong["SLURM_PROCID"] = "one";
  EXPECT_FALSE(Detect(wrong).ok());
}

TEST(DetectTest, OpenMpiComesBeforeTheSlurmThatStartedIt) {
  Environment environment = kSlurm;
  environment["OMPI_COMM_WORLD_RANK"] = "1";
  environment["OMPI_COMM_WORLD_SIZE"] = "2";
  environment["OMPI_MCA_orte_hnp_uri"] = "1638400000.0;tcp://10.0.0.1,172.17.0.1:44443";
  environment["PMIX_NAMESPACE"] = "1638400001";
  const auto found = Detect(environment);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->by, "open mpi");
  EXPECT_EQ(found->nodes, 2);
  EXPECT_EQ(found->node, 1);
  EXPECT_EQ(found->coordinator_host, "10.0.0.1");
  EXPECT_EQ(found->run_name, "1638400001");
}

TEST(DetectTest, OpenMpiFiveTellsNoAddress) {
  const auto found = Detect({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->by, "open mpi");
  EXPECT_EQ(found->coordinator_host, "");
}

TEST(DetectTest, PmiAndMvapich) {
  EXPECT_EQ(Detect({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}})->node, 2);
  EXPECT_EQ(Detect({{"MV2_COMM_WORLD_RANK", "1"}, {"MV2_COMM_WORLD_SIZE", "3"}})->by, "mvapich");
  Environment in_slurm = kSlurm;
  in_slurm["PMI_RANK"] = "2";
  in_slurm["PMI_SIZE"] = "3";
  EXPECT_EQ(Detect(in_slurm)->by, "pmi");
  EXPECT_EQ(Detect(in_slurm)->coordinator_host, "gpu03");
}

TEST(DetectTest, APodOfAnIndexedJobHasToBeToldHowManyThereAre) {
  const Environment pod = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}, {"JOB_COMPLETION_INDEX", "2"}};
  const auto found = Detect(pod, "train-2");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->by, "kubernetes");
  EXPECT_FALSE(found->nodes.has_value());
  EXPECT_EQ(found->node, 2);
  EXPECT_EQ(found->coordinator_host, "train-0");
  EXPECT_EQ(found->run_name, "train");
  EXPECT_EQ(Detect(pod, "renamed")->coordinator_host, "");
}

TEST(DetectTest, WithinAnotherRunNobodyElseIsLookedFor) {
  Environment inside = kSlurm;
  inside["LOCKSTEP_RUN_ID"] = "abc";
  inside["OMPI_COMM_WORLD_RANK"] = "1";  // of the outer run
  inside["OMPI_COMM_WORLD_SIZE"] = "2";
  EXPECT_EQ(Detect(inside)->nodes, 1);
  EXPECT_EQ(Detect(inside)->by, "");
}

TEST(DetectTest, AHostsFileWins) {
  const auto hosts = ParseHostsFile(
      "# the cluster\n"
      "gpu-1.example slots=8\n"
      "\n"
      "gpu-2\tslots=4 max_slots=8 # half of it\r\n"
      "gpu-3\n");
  ASSERT_TRUE(hosts.ok());
  ASSERT_EQ(hosts->size(), 3U);
  const auto detect = [&](std::string name) {
    return DetectCluster({.environment = &kSlurm, .hosts = &*hosts, .host_name = std::move(name)});
  };
  const auto second = detect("gpu-2.example");
  EXPECT_EQ(second->by, "hosts file");
  EXPECT_EQ(second->nodes, 3);
  EXPECT_EQ(second->node, 1);
  EXPECT_EQ(second->processes, 4);
  EXPECT_EQ(second->coordinator_host, "gpu-1.example");
  EXPECT_EQ(detect("gpu-1")->node, 0);
  EXPECT_FALSE(detect("gpu-3")->processes.has_value());
  const auto stranger = detect("login");
  EXPECT_EQ(stranger->node, -1);
  EXPECT_THAT(stranger->why.back(), HasSubstr("none is called login"));
}

TEST(DetectTest, AWrongHostsFileIsToldWithItsLine) {
  EXPECT_THAT(std::string(ParseHostsFile("a\nb slots=none\n").status().message()),
              HasSubstr("line 2: 'slots=none'"));
  EXPECT_THAT(std::string(ParseHostsFile("a\nb\na\n").status().message()), HasSubstr("line 3: a"));
  const std::vector<HostLine> none;
  const Environment environment;
  EXPECT_FALSE(DetectCluster({.environment = &environment, .hosts = &none, .host_name = "a"}).ok());
}

TEST(DetectTest, FirstHostOfAList) {
  EXPECT_EQ(FirstHost("a"), "a");
  EXPECT_EQ(FirstHost("a,b"), "a");
  EXPECT_EQ(FirstHost("gpu[03-05,07],login1"), "gpu03");
  EXPECT_EQ(FirstHost("rack[2,4]n[10-12].local"), "rack2n10.local");
  EXPECT_EQ(FirstHost("10.0.0.7"), "10.0.0.7");
  EXPECT_EQ(FirstHost(""), "");
  EXPECT_EQ(FirstHost("gpu[03"), "");
}

}  // namespace
}  // namespace lockstep::launch

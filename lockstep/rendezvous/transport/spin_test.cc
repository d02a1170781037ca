#include "lockstep/rendezvous/transport/spin.h"

#include <sched.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

using internal::ProcessorsByQuota;
using internal::SpinBudgetFor;

class SpinTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "lockstep-cgroup-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  std::string root_;
};

TEST_F(SpinTest, TakesTheSmallestQuotaOnTheWayUp) {
  Write("cpu.max", "max 100000");
  Write("jobs/cpu.max", "150000 100000");
  Write("jobs/one/cpu.max", "400000 100000");
  EXPECT_EQ(ProcessorsByQuota("0::/jobs/one\n", root_), 1.5);
  EXPECT_EQ(ProcessorsByQuota("0::/other\n", root_), INFINITY);
}

TEST_F(SpinTest, SeesTheQuotaOfAContainerWithItsOwnRoot) {
  Write("cpu.max", "50000 100000");
  EXPECT_EQ(ProcessorsByQuota("0::/\n", root_), 0.5);
}

TEST_F(SpinTest, KnowsTheFirstVersionOfCgroups) {
  Write("cpu/a/cpu.cfs_quota_us", "200000");
  Write("cpu/a/cpu.cfs_period_us", "100000");
  Write("cpu/b/cpu.cfs_quota_us", "-1");
  Write("cpu/b/cpu.cfs_period_us", "100000");
  EXPECT_EQ(ProcessorsByQuota("7:memory:/x\n5:cpu,cpuacct:/a\n", root_), 2);
  EXPECT_EQ(ProcessorsByQuota("5:cpu,cpuacct:/b\n3:cpuset:/a\n", root_), INFINITY);
}

TEST_F(SpinTest, IsNotMisledByWhatItCannotRead) {
  Write("cpu.max", "what is this");
  for (const char* text : {"", "\n", "0", "0:", "0::", "0::relative", "0::/not/there"}) {
    EXPECT_EQ(ProcessorsByQuota(text, root_), INFINITY) << text;
  }
}

TEST(Spin, IsWorthItOnlyWhereTwoCanRunAtATime) {
  EXPECT_EQ(SpinBudgetFor(2, INFINITY), absl::Microseconds(50));
  EXPECT_EQ(SpinBudgetFor(8, 1.5), absl::Microseconds(50));
  EXPECT_EQ(SpinBudgetFor(1, INFINITY), absl::ZeroDuration());
  EXPECT_EQ(SpinBudgetFor(8, 1), absl::ZeroDuration());
}

TEST(Spin, IsNotDoneByAThreadThatIsBoundToOneProcessor) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(SpinBudget(), absl::ZeroDuration());
  ASSERT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
  CpuRelax();
}

}  // namespace
}  // namespace lockstep::transport

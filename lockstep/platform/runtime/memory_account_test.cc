#include "lockstep/platform/runtime/memory_account.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(MemoryAccount, HoldsWhatItsSharesHoldAndGetsItBack) {
  MemoryAccount account(100 * kMiB);
  MemoryShare keys(&account, "job 'a'", "keys");
  {
    MemoryShare calls(&account, "gRPC", "calls");
    keys.Set(10 * kMiB);
    keys.Set(4 * kMiB);
    calls.Add(3 * kMiB);
    calls.Add(-static_cast<int64_t>(kMiB));
    EXPECT_EQ(account.held(), 6 * kMiB);
  }
  EXPECT_EQ(account.held(), 4 * kMiB);
}

TEST(MemoryAccount, RefusesNewWorkAboveNineTenthsAndSmallRequestsABitLater) {
  MemoryAccount account(100 * kMiB);
  MemoryShare share(&account, "job 'a'", "keys");
  share.Set(80 * kMiB);
  EXPECT_TRUE(account.HasRoom(9 * kMiB));
  EXPECT_FALSE(account.HasRoom(11 * kMiB));
  share.Set(91 * kMiB);
  EXPECT_FALSE(account.HasRoom());
  EXPECT_TRUE(account.HasReserve());
  share.Set(98 * kMiB);
  EXPECT_FALSE(account.HasReserve());
  EXPECT_TRUE(account.Holds(kMiB));
  EXPECT_FALSE(account.Holds(3 * kMiB));
  // Nothing overflows.
  EXPECT_FALSE(account.HasRoom(std::numeric_limits<uint64_t>::max()));
}

TEST(MemoryAccount, NamesWhoHoldsMost) {
  MemoryAccount account(100 * kMiB);
  MemoryShare first(&account, "job 'small'", "keys");
  MemoryShare keys(&account, "job 'large'", "keys");
  MemoryShare store(&account, "job 'large'", "torch's store");
  first.Set(30 * kMiB);
  keys.Set(20 * kMiB);
  store.Set(41 * kMiB);
  EXPECT_THAT(account.Refusal(2 * kMiB), AllOf(HasSubstr("memory_max"), HasSubstr("job 'large'"),
                                               HasSubstr("61.0 MiB"), HasSubstr("torch's store")));
  // Who is named follows what changes.
  store.Set(0);
  keys.Set(0);
  EXPECT_THAT(account.Refusal(90 * kMiB), HasSubstr("job 'small'"));
  const auto parts = account.Parts();
  ASSERT_FALSE(parts.empty());
  EXPECT_EQ(parts.front().part, "keys");
  EXPECT_EQ(parts.front().bytes, 30 * kMiB);
}

TEST(MemoryAccount, WithoutALimitThereIsAlwaysRoom) {
  MemoryAccount account(0);
  MemoryShare share(&account, "job 'a'", "keys");
  share.Set(uint64_t{1} << 40);
  EXPECT_TRUE(account.HasRoom(uint64_t{1} << 40));
  MemoryShare alone(nullptr, "", "");
  alone.Set(5);
  alone.Add(-2);
  EXPECT_EQ(alone.bytes(), 3u);
}

// A /proc and a /sys of our own.
class ControlGroups : public ::testing::Test {
 protected:
  ControlGroups() {
    std::string name = std::filesystem::temp_directory_path() / "groups.XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~ControlGroups() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }
  std::string root_;
};

TEST_F(ControlGroups, TheLeastLimitOfTheGroupAndThoseAboveCounts) {
  Write("/proc/self/cgroup", "0::/slice/job");
  Write("/sys/fs/cgroup/slice/job/memory.max", "max");
  EXPECT_EQ(MemoryOfControlGroups(root_), std::numeric_limits<uint64_t>::max());
  Write("/sys/fs/cgroup/slice/memory.max", "1073741824");
  EXPECT_EQ(MemoryOfControlGroups(root_), 1024 * kMiB);
  Write("/sys/fs/cgroup/slice/job/memory.max", "268435456");
  EXPECT_EQ(MemoryOfControlGroups(root_), 256 * kMiB);
}

TEST_F(ControlGroups, OfVersionOneAsWell) {
  Write("/proc/self/cgroup", "5:cpu,memory:/job\n1:name=systemd:/x");
  Write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "134217728");
  EXPECT_EQ(MemoryOfControlGroups(root_), 128 * kMiB);
}

}  // namespace
}  // namespace lockstep::runtime

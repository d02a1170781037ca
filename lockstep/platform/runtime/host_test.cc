#include "lockstep/platform/runtime/host.h"

#include <set>

#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

TEST(Host, HasTheNameThatTheKernelSays) {
  const std::string name = HostName();
  EXPECT_FALSE(name.empty());
  EXPECT_LE(name.size(), 255u);
}

TEST(Host, DrawsNoNumberTwice) {
  std::set<uint64_t> drawn;
  uint64_t all_ones = ~uint64_t{0};
  uint64_t any = 0;
  for (int i = 0; i < 1'000; ++i) {
    const uint64_t number = RandomNumber();
    EXPECT_TRUE(drawn.insert(number).second);
    all_ones &= number;
    any |= number;
  }
  // Every bit is sometimes 0 and sometimes 1.
  EXPECT_EQ(all_ones, 0u);
  EXPECT_EQ(any, ~uint64_t{0});
}

TEST(Host, DrawsAsManyBytesAsAsked) {
  EXPECT_EQ(RandomBytes(0), "");
  EXPECT_EQ(RandomBytes(16).size(), 16u);
  EXPECT_NE(RandomBytes(16), RandomBytes(16));
  EXPECT_EQ(RandomBytes(100'000).size(), 100'000u);  // more than the kernel gives at once
}

}  // namespace
}  // namespace lockstep::runtime

#include "lockstep/rendezvous/transport/size_classes.h"

#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

TEST(SizeClasses, HoldWhatWasAskedForAndWasteAQuarterAtMost) {
  for (uint64_t bytes = 1; bytes < (1 << 20); bytes += bytes < 20000 ? 1 : 61) {
    const uint64_t size = ClassBytes(bytes);
    ASSERT_GE(size, bytes);
    const uint64_t alignment = size < kPageBytes ? kBlockAlignment : kPageBytes;
    ASSERT_EQ(size % alignment, 0u) << bytes;
    ASSERT_LT(size - bytes, std::max(bytes / 4 + 1, alignment)) << bytes;
    ASSERT_EQ(ClassBytes(size), size);
    ASSERT_LE(ClassBytes(bytes - 1), size);
  }
}

TEST(SizeClasses, AreFewBetweenPowersOfTwo) {
  EXPECT_EQ(ClassBytes(0), 64u);
  EXPECT_EQ(ClassBytes(1025), 1280u);
  EXPECT_EQ(ClassBytes(1281), 1536u);
  EXPECT_EQ(ClassBytes(1537), 1792u);
  EXPECT_EQ(ClassBytes(1793), 2048u);
  EXPECT_EQ(ClassBytes(uint64_t{1} << 62), uint64_t{1} << 62);
}

}  // namespace
}  // namespace lockstep::transport

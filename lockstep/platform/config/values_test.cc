#include "lockstep/platform/config/values.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::config {
namespace {

TEST(Values, DurationsNeedAUnit) {
  EXPECT_EQ(*ParseDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("0s"), absl::ZeroDuration());
  for (const char* wrong : {"90", "-1s", "inf", "soon", ""}) {
    EXPECT_FALSE(ParseDuration(wrong).ok()) << wrong;
  }
  EXPECT_EQ(DurationText(absl::Seconds(100)), "1m40s");
}

TEST(Values, BytesHaveUnitsOfTwoToTheTen) {
  EXPECT_EQ(*ParseBytes("4096"), 4096);
  EXPECT_EQ(*ParseBytes("64KiB"), 65536);
  EXPECT_EQ(*ParseBytes("64k"), 65536);
  EXPECT_EQ(*ParseBytes("1.5 MiB"), 1572864);
  EXPECT_EQ(*ParseBytes("4GiB"), int64_t{4} << 30);
  for (const char* wrong : {"", "KiB", "4x", "-1", "0.3", "99999999TiB", "1.2.3", "4 kk"}) {
    EXPECT_FALSE(ParseBytes(wrong).ok()) << wrong;
  }
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1023}, int64_t{1} << 20,
                              int64_t{3072}, int64_t{4} << 30, int64_t{1} << 60}) {
    EXPECT_EQ(*ParseBytes(BytesText(bytes)), bytes) << BytesText(bytes);
  }
  EXPECT_EQ(BytesText(64 << 20), "64MiB");
}

TEST(Values, CountsMayBeGrouped) {
  EXPECT_EQ(*ParseCount("1_000_000"), 1'000'000);
  EXPECT_FALSE(ParseCount("1e6").ok());
  EXPECT_FALSE(ParseCount("").ok());
}

TEST(Values, SwitchesAreSaidInWords) {
  EXPECT_TRUE(*ParseSwitch("Yes"));
  EXPECT_FALSE(*ParseSwitch("off"));
  EXPECT_FALSE(ParseSwitch("maybe").ok());
}

}  // namespace
}  // namespace lockstep::config

#include "lockstep/platform/etcd/version.h"

#include "gtest/gtest.h"

namespace lockstep::etcd {
namespace {

TEST(Version, ThoseThatLoseDataAreNamed) {
  for (const char* good : {"3.4.22", "3.4.23", "3.5.3", "3.5.21", "3.6.0", "3.6.1-rc.0", "4.0.0"}) {
    EXPECT_EQ(WhyNot(good), "") << good;
  }
  for (const char* bad : {"3.5.0", "3.5.1", "3.5.2", "3.3.27", "2.3.8", "", "3", "x.y.z"}) {
    EXPECT_NE(WhyNot(bad), "") << bad;
  }
}

}  // namespace
}  // namespace lockstep::etcd

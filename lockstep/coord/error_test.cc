#include "lockstep/coord/error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lockstep::coord {
namespace {

TEST(ReasonName, IsOneWordAndDiffersForEach) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(Reason::kLimitExceeded); ++i) {
    const std::string name(ReasonName(static_cast<Reason>(i)));
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(ReasonName(Reason::kBarrierTimedOut), "barrier_timed_out");
  EXPECT_EQ(ReasonName(Reason::kLimitExceeded), "limit_exceeded");
}

}  // namespace
}  // namespace lockstep::coord

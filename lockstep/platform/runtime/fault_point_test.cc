#include "lockstep/platform/runtime/fault_point.h"

#include <csignal>

#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

TEST(FaultPoint, DoesNothingUnlessItIsArmed) { FaultPoint("runtime/tested"); }

TEST(FaultPointDeathTest, ActsTheTimeItIsToldToAndNowhereElse) {
  const auto reach = [](const char* armed, int times) {
    if (!ArmFaultPoint(armed).ok()) std::exit(1);
    FaultPoint("runtime/other");
    for (int i = 0; i < times; ++i) FaultPoint("runtime/tested");
    std::exit(0);
  };
  EXPECT_EXIT(reach("runtime/tested:3:exit", 3), testing::ExitedWithCode(3), "");
  EXPECT_EXIT(reach("runtime/tested:3:kill", 3), testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(reach("runtime/tested:3:kill", 2), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(reach("runtime/tested:1:exit", 4), testing::ExitedWithCode(3), "");
}

TEST(FaultPoint, RefusesWhatItDoesNotUnderstand) {
  for (const char* wrong : {"", "a", "a:1", "a:0:kill", "a:1:hang", ":1:kill", "a:x:kill"}) {
    EXPECT_EQ(ArmFaultPoint(wrong).code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace lockstep::runtime

#include "lockstep/platform/runtime/stop_signals.h"

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "gtest/gtest.h"
#include "lockstep/platform/runtime/end_limit.h"

namespace lockstep::runtime {
namespace {

TEST(StopSignals, TheFirstOneIsToldOnTheLoop) {
  Loop loop;
  int told = 0;
  {
    const StopSignals signals(loop, [&](int signal) {
      told = signal;
      loop.Stop();
    });
    ::raise(SIGINT);
    loop.Run();
  }
  EXPECT_EQ(told, SIGINT);
}

using StopSignalsDeathTest = ::testing::Test;

// The loop never runs: nobody but the handler could end the process.
TEST(StopSignalsDeathTest, Finding20_TheSecondOneEndsTheProcessWhateverTheLoopDoes) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto twice = [] {
    Loop loop;
    const StopSignals signals(loop, [](int) {});
    ::raise(SIGTERM);
    ::raise(SIGINT);
    std::_Exit(1);
  };
  EXPECT_EXIT(twice(), ::testing::ExitedWithCode(128 + SIGINT), "");
}

TEST(StopSignalsDeathTest, AnEndThatTakesTooLongIsEnded) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto hang = [] {
    const EndLimit limit(absl::Milliseconds(1), 7, [] {});
    for (;;) ::pause();
  };
  EXPECT_EXIT(hang(), ::testing::ExitedWithCode(7), "");
  {
    const EndLimit limit(absl::Hours(1), 7, [] {});
  }
}

}  // namespace
}  // namespace lockstep::runtime

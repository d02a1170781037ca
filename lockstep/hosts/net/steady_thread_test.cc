#include "lockstep/hosts/net/steady_thread.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "gmock/gmock.h"

namespace lockstep::hosts {
namespace {

TEST(SteadyThreadTest, CallsUntilItIsDestroyed) {
  std::atomic<int> turns = 0;
  {
    const SteadyThread thread([&] {
      ++turns;
      // Not to hold up others: it may have a real-time priority.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    while (turns < 100) std::this_thread::yield();
  }
  const int last = turns;
  std::this_thread::yield();
  EXPECT_EQ(turns, last);
}

TEST(SteadyThreadTest, TakesNoSignals) {
  std::atomic<bool> blocked = false;
  std::atomic<bool> looked = false;
  {
    const SteadyThread thread([&] {
      sigset_t mask;
      ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
      blocked = ::sigismember(&mask, SIGTERM) == 1;
      looked = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    while (!looked) std::this_thread::yield();
  }
  EXPECT_TRUE(blocked);
}

}  // namespace
}  // namespace lockstep::hosts

#include "lockstep/client/loop_driver.h"

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "asio/post.hpp"
#include "asio/steady_timer.hpp"
#include "gtest/gtest.h"

namespace lockstep::client {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kLong = std::chrono::seconds(60);

// With or without the library's threads, which never end: so nothing of it is destroyed.
LoopDriver& Make(bool with_threads) {
  static auto* const all = new std::vector<LoopDriver*>;  // for those who look for leaks
  auto* driver = all->emplace_back(new LoopDriver);
  for (int i = 0; i < (with_threads ? 2 : 0); ++i) {
    std::thread([driver] { driver->RunForever(); }).detach();
  }
  return *driver;
}

TEST(LoopDriver, ACallerRunsWhatItWaitsForItself) {
  LoopDriver& driver = Make(/*with_threads=*/false);
  LoopDriver::Waiter waiter(driver);
  LoopDriver::Turn turn(driver, waiter);
  std::thread::id ran_on;
  driver.Post([&] {
    ran_on = std::this_thread::get_id();
    waiter.Wake();
  });
  EXPECT_TRUE(turn.WaitUntil(Clock::now() + kLong));
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(LoopDriver, ItsOwnThreadRunsWhatNobodyWaitsFor) {
  LoopDriver& driver = Make(/*with_threads=*/true);
  for (int i = 0; i < 100; ++i) {
    std::promise<std::thread::id> ran_on;
    driver.Post([&] { ran_on.set_value(std::this_thread::get_id()); });
    EXPECT_NE(ran_on.get_future().get(), std::this_thread::get_id());
  }
}

TEST(LoopDriver, AWaitEndsAtItsTimeAndGoesOnWhenAsked) {
  LoopDriver& driver = Make(/*with_threads=*/false);
  LoopDriver::Waiter waiter(driver);
  LoopDriver::Turn turn(driver, waiter);
  EXPECT_FALSE(turn.WaitUntil(Clock::now() + milliseconds(5)));
  driver.Post([&] { waiter.Wake(); });
  EXPECT_TRUE(turn.WaitUntil(Clock::now() + kLong));
}

// Without a thread of its own nobody but the second caller can do it.
TEST(LoopDriver, TheNextCallerIsHandedTheDriving) {
  LoopDriver& driver = Make(/*with_threads=*/false);
  LoopDriver::Waiter first(driver);
  LoopDriver::Waiter second(driver);
  std::promise<void> both_wait;
  std::promise<void> first_ended;
  std::thread other([&] {
    LoopDriver::Turn turn(driver, second);
    both_wait.set_value();
    EXPECT_TRUE(turn.WaitUntil(Clock::now() + kLong));
  });
  both_wait.get_future().get();
  {
    LoopDriver::Turn turn(driver, first);
    driver.Post([&] { first.Wake(); });
    EXPECT_TRUE(turn.WaitUntil(Clock::now() + kLong));
  }
  driver.Post([&] { second.Wake(); });
  other.join();
}

TEST(LoopDriver, WhoLooksElsewhereLeavesTheDrivingToOthers) {
  LoopDriver& driver = Make(/*with_threads=*/true);
  LoopDriver::Waiter waiter(driver);
  LoopDriver::Turn turn(driver, waiter);
  EXPECT_FALSE(turn.WaitUntil(Clock::now() + milliseconds(5)));
  std::promise<void> ran;
  driver.Post([&] { ran.set_value(); });
  EXPECT_EQ(ran.get_future().wait_for(kLong), std::future_status::ready);
}

TEST(LoopDriver, ItsOwnThreadIsBackAfterALongWait) {
  LoopDriver& driver = Make(/*with_threads=*/true);
  {
    LoopDriver::Waiter waiter(driver);
    LoopDriver::Turn turn(driver, waiter);
    asio::steady_timer timer(driver.io(), 20 * LoopDriver::kLinger);
    timer.async_wait([&](const asio::error_code&) { waiter.Wake(); });
    EXPECT_TRUE(turn.WaitUntil(Clock::now() + kLong));
  }
  std::promise<void> ran;
  asio::steady_timer timer(driver.io(), milliseconds(1));
  timer.async_wait([&](const asio::error_code&) { ran.set_value(); });
  EXPECT_EQ(ran.get_future().wait_for(kLong), std::future_status::ready);
}

TEST(LoopDriver, CallbacksComeInOrderAndOneAtATime) {
  LoopDriver& driver = Make(/*with_threads=*/true);
  constexpr int kCallbacks = 2000;
  std::vector<int> seen;  // by callbacks only
  std::promise<void> done;
  EXPECT_FALSE(LoopDriver::InCallback());
  for (int i = 0; i < kCallbacks; ++i) {
    driver.Post([&, i] {
      driver.Callback([&, i] {
        EXPECT_TRUE(LoopDriver::InCallback());
        seen.push_back(i);
        if (i + 1 == kCallbacks) done.set_value();
      });
    });
  }
  ASSERT_EQ(done.get_future().wait_for(kLong), std::future_status::ready);
  for (int i = 0; i < kCallbacks; ++i) ASSERT_EQ(seen[static_cast<size_t>(i)], i);
}

TEST(LoopDriver, ACallbackThatTakesLongKeepsNobodyFromTheLoop) {
  LoopDriver& driver = Make(/*with_threads=*/true);
  std::promise<void> ran;
  std::promise<void> ended;
  const auto slow = [&] {
    driver.Post([&] { ran.set_value(); });
    EXPECT_EQ(ran.get_future().wait_for(kLong), std::future_status::ready);
    ended.set_value();
  };
  // Not only the first time, nor only from the loop.
  for (const bool from_loop : {true, false, true, false}) {
    ran = {};
    ended = {};
    if (from_loop) {
      driver.Post([&] { driver.Callback(slow); });
    } else {
      driver.Callback(slow);
    }
    ASSERT_EQ(ended.get_future().wait_for(kLong), std::future_status::ready);
  }
}

TEST(LoopDriver, ACallbackMayWaitItself) {
  LoopDriver& driver = Make(/*with_threads=*/true);
  std::promise<void> ended;
  driver.Callback([&] {
    LoopDriver::Waiter waiter(driver);
    LoopDriver::Turn turn(driver, waiter);
    driver.Post([&] { waiter.Wake(); });
    EXPECT_TRUE(turn.WaitUntil(Clock::now() + kLong));
    ended.set_value();
  });
  ASSERT_EQ(ended.get_future().wait_for(kLong), std::future_status::ready);
}

TEST(LoopDriver, CallbacksComeWhileACallerDrives) {
  LoopDriver& driver = Make(/*with_threads=*/true);
  LoopDriver::Waiter waiter(driver);
  LoopDriver::Turn turn(driver, waiter);
  std::thread::id called_on;
  driver.Post([&] {
    driver.Callback([&] {
      called_on = std::this_thread::get_id();
      driver.Post([&] { waiter.Wake(); });
    });
  });
  ASSERT_TRUE(turn.WaitUntil(Clock::now() + kLong));
  EXPECT_NE(called_on, std::this_thread::get_id());
}

TEST(LoopDriver, ParkedItIsLeftToCallersUntilSomebodyPosts) {
  LoopDriver& driver = Make(/*with_threads=*/true);
  for (int i = 0; i < 100; ++i) {
    bool ran = false;
    driver.Post([&] { ran = true; });
    ASSERT_TRUE(driver.Park(absl::Minutes(1)));
    ASSERT_TRUE(ran) << "what was ready is done first";
    std::thread::id ran_on;
    LoopDriver::Waiter waiter(driver);
    asio::post(driver.io(), [&] {
      ran_on = std::this_thread::get_id();
      waiter.Wake();
    });
    LoopDriver::Turn turn(driver, waiter);
    ASSERT_TRUE(turn.WaitUntil(Clock::now() + kLong));
    ASSERT_EQ(ran_on, std::this_thread::get_id());
  }
  std::promise<void> ran;
  driver.Post([&] { ran.set_value(); });
  EXPECT_EQ(ran.get_future().wait_for(kLong), std::future_status::ready);
}

// Callers who come and go, each woken by another's function, beside functions that nobody waits
// for: nothing is lost, and no two threads are in the loop at once.
TEST(LoopDriver, ManyCallersAtOnce) {
  LoopDriver& driver = Make(/*with_threads=*/true);
  constexpr int kThreads = 6;
  constexpr int kRounds = 500;
  int ran = 0;     // on the loop only
  int called = 0;  // by callbacks only
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&driver, &ran, &called, t] {
      for (int i = 0; i < kRounds; ++i) {
        auto waiter = std::make_shared<LoopDriver::Waiter>(driver);
        LoopDriver::Turn turn(driver, *waiter);
        driver.Post([&driver, &ran, &called, waiter] {
          ++ran;
          driver.Callback([&called] { ++called; });
          waiter->Wake();
        });
        if ((i + t) % 3 == 0) {
          while (!turn.WaitUntil(Clock::now() + std::chrono::microseconds(20))) {
          }
        } else {
          turn.Wait();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::promise<void> total;
  driver.Post([&] { driver.Callback([&] { total.set_value(); }); });
  total.get_future().get();
  EXPECT_EQ(ran, kThreads * kRounds);
  EXPECT_EQ(called, kThreads * kRounds);
}

}  // namespace
}  // namespace lockstep::client

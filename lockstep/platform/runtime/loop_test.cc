#include "lockstep/platform/runtime/loop.h"

#include <time.h>

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

using ::testing::ElementsAre;

Time In(absl::Duration duration) { return MonotonicNow() + duration; }

TEST(Loop, RunsPostedFunctionsInOrderUntilItIsStopped) {
  Loop loop;
  std::vector<int> ran;
  for (int i = 0; i < 3; ++i) loop.Post([&, i] { ran.push_back(i); });
  loop.Post([&] { loop.Stop(); });
  loop.Post([&] { ran.push_back(99); });
  loop.Run();
  EXPECT_THAT(ran, ElementsAre(0, 1, 2));
}

TEST(Loop, StaysWhileThereIsNothingToDo) {
  Loop loop;
  std::thread thread([&] { loop.Run(); });
  int ran = 0;
  loop.Post([&] { ++ran; });
  loop.Post([&] { loop.Stop(); });
  thread.join();
  EXPECT_EQ(ran, 1);
}

TEST(Loop, TakesFunctionsFromManyThreads) {
  Loop loop;
  constexpr int kThreads = 4;
  constexpr int kPosts = 1000;
  int ran = 0;  // on the loop only
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kPosts; ++i) {
        loop.Post([&] {
          if (++ran == kThreads * kPosts) loop.Stop();
        });
      }
    });
  }
  loop.Run();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(ran, kThreads * kPosts);
}

TEST(Loop, GoesOnWhileItStaysAwakeAndAfter) {
  Loop loop;
  std::vector<int> ran;
  Timer soon(loop);
  Timer later(loop);
  loop.Post([&] {
    const Time until = In(absl::Milliseconds(5));
    loop.StayAwakeUntil(until);
    loop.StayAwakeUntil(In(absl::Milliseconds(1)));  // makes it no shorter
    soon.Arm(In(absl::Milliseconds(2)), [&] { ran.push_back(1); });
    later.Arm(until + absl::Milliseconds(20), [&] {
      ran.push_back(2);
      loop.Stop();
    });
  });
  loop.Run();
  EXPECT_THAT(ran, ElementsAre(1, 2));
}

TEST(Loop, StopsWhileItStaysAwake) {
  Loop loop;
  std::thread thread([&] { loop.Run(); });
  loop.Post([&] { loop.StayAwakeUntil(Time::Infinite()); });
  std::vector<int> ran;
  loop.Post([&] { ran.push_back(1); });
  loop.Post([&] { loop.Stop(); });
  loop.Post([&] { ran.push_back(99); });
  thread.join();
  EXPECT_THAT(ran, ElementsAre(1));
}

TEST(Loop, KnowsItsThread) {
  Loop loop;
  EXPECT_FALSE(loop.InLoop());
  bool inside = false;
  loop.Post([&] {
    inside = loop.InLoop();
    loop.Stop();
  });
  std::thread([&] { loop.Run(); }).join();
  EXPECT_TRUE(inside);
  EXPECT_FALSE(loop.InLoop());
}

TEST(Loop, DestroysWhatItDidNotRun) {
  auto alive = std::make_shared<int>(1);
  {
    Loop loop;
    loop.Post([alive] { FAIL() << "was never run"; });
  }
  EXPECT_EQ(alive.use_count(), 1);
}

// Until the thread has computed for so long, whatever else the machine does.
void Compute(absl::Duration time) {
  const auto used = [] {
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return absl::DurationFromTimespec(now);
  };
  const absl::Duration until = used() + time;
  while (used() < until) {
  }
}

TEST(Loop, Finding07_TellsHowLongItsLongestTurnComputed) {
  Loop loop;
  absl::Duration slept;
  loop.Post([] {});
  loop.Post([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  loop.Post([&] { slept = loop.turns().longest(); });
  loop.Post([] { Compute(absl::Milliseconds(60)); });
  loop.Post([&] { loop.Stop(); });
  loop.Run();
  EXPECT_LT(slept, absl::Milliseconds(40)) << "sleep is not work";
  EXPECT_GE(loop.turns().longest(), absl::Milliseconds(59));
  EXPECT_GE(loop.turns().turns(), 5u);
  loop.turns().Reset();
  EXPECT_EQ(loop.turns().longest(), absl::ZeroDuration());
}

TEST(Loop, Finding07_LongWorkLeavesTurnsToOthers) {
  Loop loop;
  int steps = 0;
  int steps_when_another_ran = 0;
  loop.Post([&] {
    loop.Post([&] { steps_when_another_ran = steps; });
    RunInTurns(loop, [&] {
      Compute(TurnBudget::kTime);
      if (++steps < 20) return true;
      loop.Stop();
      return false;
    });
  });
  loop.Run();
  EXPECT_EQ(steps, 20);
  EXPECT_EQ(steps_when_another_ran, 1);
}

TEST(LoopDeathTest, RunsOnlyOnce) {
  Loop loop;
  loop.Post([&] { loop.Stop(); });
  loop.Run();
  EXPECT_DEATH(loop.Run(), "broken invariant");
}

TEST(Timer, FiresInTheOrderOfTheirTimes) {
  Loop loop;
  Timer late(loop);
  Timer early(loop);
  std::vector<int> fired;
  late.Arm(In(absl::Milliseconds(20)), [&] {
    fired.push_back(2);
    loop.Stop();
  });
  early.Arm(In(absl::Milliseconds(1)), [&] { fired.push_back(1); });
  loop.Run();
  EXPECT_THAT(fired, ElementsAre(1, 2));
}

TEST(Timer, FiresNotBeforeItsTime) {
  Loop loop;
  Timer timer(loop);
  const Time at = In(absl::Milliseconds(5));
  Time fired;
  timer.Arm(at, [&] {
    fired = MonotonicNow();
    loop.Stop();
  });
  loop.Run();
  EXPECT_GE(fired, at);
}

TEST(Timer, FiresSoonWhenItsTimeHasPassed) {
  Loop loop;
  Timer timer(loop);
  bool fired = false;
  timer.Arm(Time::FromNanoseconds(0), [&] {
    fired = true;
    loop.Stop();
  });
  loop.Run();
  EXPECT_TRUE(fired);
}

TEST(Timer, ForgetsWhatWasArmedBefore) {
  Loop loop;
  Timer timer(loop);
  std::vector<int> fired;
  timer.Arm(In(absl::ZeroDuration()), [&] { fired.push_back(1); });
  timer.Arm(In(absl::Milliseconds(1)), [&] {
    fired.push_back(2);
    loop.Stop();
  });
  loop.Run();
  EXPECT_THAT(fired, ElementsAre(2));
}

TEST(Timer, IsCancelledByCancelByAnInfiniteTimeAndByItsEnd) {
  Loop loop;
  Timer cancelled(loop);
  Timer infinite(loop);
  auto gone = std::make_unique<Timer>(loop);
  Timer last(loop);
  std::vector<int> fired;
  for (Timer* timer : {&cancelled, &infinite, gone.get()}) {
    timer->Arm(In(absl::ZeroDuration()), [&] { fired.push_back(1); });
  }
  cancelled.Cancel();
  infinite.Arm(Time::Infinite(), [&] { fired.push_back(2); });
  gone.reset();
  last.Arm(In(absl::Milliseconds(2)), [&] { loop.Stop(); });
  loop.Run();
  EXPECT_THAT(fired, ElementsAre());
}

TEST(Timer, MayBeArmedAndDestroyedByWhatItCalls) {
  Loop loop;
  std::optional<Timer> timer(loop);
  int fired = 0;
  std::function<void()> again = [&] {
    if (++fired < 3) return timer->Arm(In(absl::ZeroDuration()), [&] { again(); });
    timer.reset();
    loop.Stop();
  };
  timer->Arm(In(absl::ZeroDuration()), [&] { again(); });
  loop.Run();
  EXPECT_EQ(fired, 3);
}

// An expiry that Asio has queued already, behind a function that cancels the timer.
TEST(Timer, DoesNotFireOnceItIsCancelledEvenIfItsTimeHasCome) {
  Loop loop;
  Timer first(loop);
  Timer second(loop);
  bool fired = false;
  const Time at = In(absl::Milliseconds(1));
  first.Arm(at, [&] {
    second.Cancel();
    loop.Post([&] { loop.Stop(); });
  });
  second.Arm(at, [&] { fired = true; });
  loop.Run();
  EXPECT_FALSE(fired);
}

}  // namespace
}  // namespace lockstep::runtime

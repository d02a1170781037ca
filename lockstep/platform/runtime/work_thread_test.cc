#include "lockstep/platform/runtime/work_thread.h"

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"

namespace lockstep::runtime {
namespace {

using testing::ElementsAre;

TEST(WorkThread, RunsInOrderOnAThreadOfItsOwn) {
  WorkThread thread;
  std::vector<int> ran;  // the thread's, until `done`
  std::promise<std::thread::id> done;
  for (int i = 0; i < 3; ++i) thread.Push([&ran, i] { ran.push_back(i); });
  thread.Push([&done] { done.set_value(std::this_thread::get_id()); });
  EXPECT_NE(done.get_future().get(), std::this_thread::get_id());
  EXPECT_THAT(ran, ElementsAre(0, 1, 2));
}

TEST(WorkThread, FunctionsMayPushMore) {
  WorkThread thread;
  std::promise<void> done;
  thread.Push([&] { thread.Push([&done] { done.set_value(); }); });
  done.get_future().get();
}

TEST(WorkThread, ItsEndWaitsForWhatRunsAndLeavesNothingBehind) {
  std::promise<void> begun;
  std::promise<void> may_end;
  const auto held = std::make_shared<int>();
  bool ended = false;
  {
    WorkThread thread;
    thread.Push([&] {
      begun.set_value();
      may_end.get_future().get();
      ended = true;
    });
    for (int i = 0; i < 3; ++i) thread.Push([held] {});
    begun.get_future().get();
    may_end.set_value();
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace lockstep::runtime

#include "lockstep/base/mutex.h"

#include <thread>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

class Gate {
 public:
  void Open() {
    const MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  void Await() {
    const MutexLock lock(mutex_);
    while (!open_) changed_.Wait(mutex_);
  }
  // Whether it opened in time.
  bool AwaitFor(absl::Duration limit) {
    const MutexLock lock(mutex_);
    const WaitLimit until = WaitLimitAfter(limit);
    while (!open_ && changed_.WaitUntil(mutex_, until)) {
    }
    return open_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST(Mutex, OneThreadAtATimeHoldsIt) {
  struct {
    Mutex mutex;
    int count ABSL_GUARDED_BY(mutex) = 0;
  } shared;
  const auto add = [&shared] {
    for (int i = 0; i < 10'000; ++i) {
      const MutexLock lock(shared.mutex);
      ++shared.count;
    }
  };
  std::thread other(add);
  add();
  other.join();
  const MutexLock lock(shared.mutex);
  EXPECT_EQ(shared.count, 20'000);
}

TEST(CondVar, AWaitLetsOthersHaveTheMutexAndEndsWithTheChange) {
  Gate gate;
  std::thread other([&gate] { gate.Await(); });
  gate.Open();
  other.join();
}

TEST(CondVar, AWaitEndsAtItsLimit) {
  Gate gate;
  EXPECT_FALSE(gate.AwaitFor(absl::Milliseconds(1)));
  EXPECT_FALSE(gate.AwaitFor(-absl::Seconds(1))) << "which was before";
  gate.Open();
  EXPECT_TRUE(gate.AwaitFor(-absl::Seconds(1))) << "what is already so is seen first";
}

TEST(CondVar, AWaitWithoutEndWaitsForTheChange) {
  Gate gate;
  std::thread other([&gate] { EXPECT_TRUE(gate.AwaitFor(absl::InfiniteDuration())); });
  gate.Open();
  other.join();
}

}  // namespace
}  // namespace lockstep

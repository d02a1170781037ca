#include "lockstep/client/client_shell.h"

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "lockstep/client/failure_notice.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::client {
namespace {

using runtime::MonotonicNow;

constexpr char kForkedOff[] = "a test";

TEST(ClientShell, AWaitEndsWithWhatInterruptsIt) {
  const ClientShell shell(kForkedOff);
  LoopDriver::Waiter waiter(shell.loop());
  LoopDriver::Turn turn(shell.loop(), waiter);
  const absl::Status status =
      shell.Wait(turn, Time::Infinite(), [] { return absl::CancelledError("Ctrl-C"); });
  EXPECT_EQ(status, absl::CancelledError("Ctrl-C"));
}

TEST(ClientShell, AWaitEndsWithTheDeadlineOrWhenItIsWoken) {
  const ClientShell shell(kForkedOff);
  LoopDriver::Waiter waiter(shell.loop());
  LoopDriver::Turn turn(shell.loop(), waiter);
  EXPECT_TRUE(shell.Wait(turn, MonotonicNow() + absl::Milliseconds(1), nullptr).ok());
  shell.loop().Post([&] { waiter.Wake(); });
  EXPECT_TRUE(shell.Wait(turn, Time::Infinite(), absl::OkStatus).ok());
}

TEST(ClientShell, ReturnsWhenWhatItRunsOnTheLoopIsDone) {
  ClientShell shell(kForkedOff);
  std::thread::id ran_on;
  shell.RunOnLoop([&] { ran_on = std::this_thread::get_id(); });
  EXPECT_NE(ran_on, std::thread::id());
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST(ClientShell, WaitsForCallbacksThatAreExpectedButNotFromOne) {
  ClientShell shell(kForkedOff);
  shell.ExpectCallback();
  std::atomic<bool> ran = false;
  shell.Callback([&] {
    shell.WaitForCallbacks();
    ran = true;
  });
  shell.WaitForCallbacks();
  EXPECT_TRUE(ran);
}

struct Rung {
  ClientShell shell{kForkedOff};
  std::promise<int> first;
};

TEST(ClientShell, TheTimerRingsForTheEarliestOnly) {
  const auto owner = std::make_shared<Rung>();
  const Time now = MonotonicNow();
  owner->shell.RunOnLoop([&] {
    const auto arm = [&](absl::Duration in, int which) {
      owner->shell.ArmTimer(now + in, std::weak_ptr<Rung>(owner),
                            [which](Rung& self) { self.first.set_value(which); });
    };
    arm(absl::Hours(1), 1);
    arm(absl::Milliseconds(1), 2);
    arm(absl::Hours(2), 3);
    EXPECT_FALSE(owner->shell.RingsTooLate(now + absl::Hours(1)));
  });
  EXPECT_EQ(owner->first.get_future().get(), 2);
  owner->shell.RunOnLoop([&] {
    EXPECT_TRUE(owner->shell.RingsTooLate(now + absl::Hours(1)));
    owner->shell.CancelTimer();
  });
}

TEST(FailureNotice, IsToldWhicheverComesFirst) {
  absl::Status heard;
  const auto hear = [&](absl::Status why) { heard = std::move(why); };
  FailureNotice early;
  EXPECT_EQ(early.SetCallback(hear), nullptr);
  early.Fail(absl::InternalError("x"))();
  EXPECT_EQ(heard, absl::InternalError("x"));
  FailureNotice late;
  EXPECT_EQ(late.Fail(absl::InternalError("y")), nullptr);
  late.SetCallback(hear)();
  EXPECT_EQ(heard, absl::InternalError("y"));
  EXPECT_EQ(late.SetCallback(nullptr), nullptr);
}

}  // namespace
}  // namespace lockstep::client

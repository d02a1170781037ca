#include "lockstep/launch/failure_ledger.h"

#include <csignal>

#include "gtest/gtest.h"

namespace lockstep::launch {
namespace {

class FailureLedgerTest : public testing::Test {
 protected:
  FailureLedgerTest() : processes_("task", 4, 2) {
    for (const MemberIndex member : {kOne, kOther}) {
      processes_.Take(now_, ProcessStarted{member, 100}, out_);
    }
  }
  void End(MemberIndex member, ExitStatus ending) {
    processes_.Take(now_, ProcessEnded{.member = member, .ending = ending});
    processes_.Release(member, /*may_start=*/false, out_);
  }
  bool Awaits() {
    bool ask = false;
    const bool awaits = ledger_.AwaitsRootCause(now_, processes_, false, absl::Seconds(2), ask);
    asked_ += ask ? 1 : 0;
    return awaits;
  }

  static constexpr MemberIndex kOne{4};
  static constexpr MemberIndex kOther{5};
  Time now_ = Time::FromNanoseconds(1'000'000'000);
  Effects out_;
  ProcessTable processes_;
  FailureLedger ledger_;
  int asked_ = 0;
};

TEST_F(FailureLedgerTest, OnlyTheFirstCounts) {
  EXPECT_FALSE(ledger_.exit_code().has_value());
  EXPECT_TRUE(ledger_.Note({.exit_code = 3, .at = now_, .culprit = kOne}));
  EXPECT_FALSE(ledger_.Note({.exit_code = 4, .at = now_, .culprit = kOther}));
  EXPECT_EQ(ledger_.exit_code(), 3);
  EXPECT_EQ(ledger_.member(), kOne);
  EXPECT_EQ(ledger_.cause(), "");
}

TEST_F(FailureLedgerTest, TheCoordinatorIsAskedOnceWhereSeveralFailed) {
  End(kOne, {1, 0});
  ledger_.Note({.exit_code = 1, .at = now_, .culprit = kOne});
  EXPECT_FALSE(Awaits()) << "there is no choice";
  End(kOther, {42, 0});
  EXPECT_TRUE(Awaits());
  EXPECT_TRUE(Awaits());
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(ledger_.deadline(), now_ + absl::Seconds(2));
  ledger_.TakeRootCause({.member = kOther, .joined = false}, processes_);
  EXPECT_FALSE(Awaits());
  EXPECT_EQ(ledger_.exit_code(), 42);
  EXPECT_EQ(ledger_.member(), kOther);
  EXPECT_TRUE(ledger_.nobody_joined());
}

TEST_F(FailureLedgerTest, ARootCauseThatIsNotOfOursOrEndedByOurSignalChangesNothing) {
  processes_.SignalRunning(SIGTERM, out_);
  End(kOne, {1, 0});
  End(kOther, {0, SIGTERM});
  ledger_.Note({.exit_code = 1, .at = now_, .culprit = kOne});
  for (const MemberIndex told : {MemberIndex(0), kOther}) {
    ledger_.TakeRootCause({.member = told}, processes_);
    EXPECT_EQ(ledger_.member(), kOne);
  }
}

TEST_F(FailureLedgerTest, WhatTheOthersCausedIsNoFailureOfOurs) {
  ledger_.Note({.exit_code = 1, .at = now_, .culprit = kOne});
  ledger_.BlameOthers("node 1 is gone");
  EXPECT_FALSE(ledger_.member().has_value());
  EXPECT_EQ(ledger_.cause(), "node 1 is gone");
  EXPECT_EQ(ledger_.exit_code(), 1);
}

}  // namespace
}  // namespace lockstep::launch

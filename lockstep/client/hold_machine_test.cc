#include "lockstep/client/hold_machine.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::client {
namespace {

using wire::native::PreemptionPhase;
using wire::native::PreemptionState;
using wire::native::SyncState;
using Verdict = HoldMachine::Verdict;

// A member that polls, and the server's states as they reach it.
class Hold : public ::testing::Test {
 protected:
  explicit Hold(HoldMachine::Options options = {.stride = 1}) : machine_(options) {}

  // As `Preemption::Reached`: the step is stored, the hold looked at.
  Verdict Poll(int64_t step) {
    newest_ = std::max(newest_, step);
    if (step < machine_.hold()) return Verdict::kNo;
    out_ = {};
    return machine_.Poll(now_, step, out_);
  }
  void Take(PreemptionPhase phase, std::optional<int64_t> sync_step = {}, int64_t id = 1,
            int64_t round = 0) {
    out_ = {};
    machine_.Take(now_,
                  PreemptionState{.version = ++version_,
                                  .id = id,
                                  .phase = phase,
                                  .round = round,
                                  .sync_step = sync_step},
                  newest_, out_);
  }
  // The first step that was offered just now.
  std::optional<int64_t> Offered() {
    EXPECT_TRUE(out_.answer.has_value()) << "nothing was offered";
    return out_.answer ? out_.answer->first : std::nullopt;
  }

  HoldMachine machine_;
  HoldMachine::Effects out_;
  Time now_;
  int64_t newest_ = HoldMachine::kNoStep;
  int64_t version_ = 0;
};

TEST_F(Hold, PreemptionGap11_IsDownWhileNobodyDies) {
  for (int64_t step = 0; step < 1000; ++step) EXPECT_EQ(Poll(step), Verdict::kNo);
  EXPECT_EQ(machine_.hold(), HoldMachine::kDown);
}

TEST_F(Hold, OffersTheStepBehindTheNewestAndStopsThere) {
  Poll(5);
  Take(PreemptionPhase::kHolding);
  EXPECT_EQ(Offered(), 6);
  EXPECT_EQ(Poll(6), Verdict::kWait);
  Take(PreemptionPhase::kAgreed, 8);
  EXPECT_EQ(Poll(6), Verdict::kNo);
  EXPECT_EQ(Poll(7), Verdict::kNo);
  EXPECT_EQ(Poll(8), Verdict::kYes);
  EXPECT_EQ(out_.report->state, SyncState::kReached);
  EXPECT_EQ(out_.report->step, 8);
}

TEST_F(Hold, PreemptionGap18_IsTrueForOneStepAndForThatOneAlways) {
  Poll(5);
  Take(PreemptionPhase::kHolding);
  Take(PreemptionPhase::kAgreed, 6);
  EXPECT_EQ(Poll(6), Verdict::kYes);
  EXPECT_EQ(Poll(6), Verdict::kYes);
  EXPECT_EQ(Poll(5), Verdict::kNo) << "an older step, by another thread";
  EXPECT_EQ(Poll(7), Verdict::kNo);
  EXPECT_EQ(Poll(6), Verdict::kYes);
  Take(PreemptionPhase::kEnded, 6);
  EXPECT_EQ(Poll(6), Verdict::kYes);
  EXPECT_EQ(Poll(8), Verdict::kNo);
  EXPECT_EQ(machine_.hold(), HoldMachine::kDown) << "it costs nothing again";
}

// A member that polls every tenth step.
TEST_F(Hold, PreemptionDefect01_IsReachedAtTheFirstPollBehindTheStep) {
  Poll(100);
  Take(PreemptionPhase::kHolding);
  Take(PreemptionPhase::kAgreed, 101);
  EXPECT_EQ(Poll(110), Verdict::kYes);
}

// A thread that polls an older step rewinds nothing.
TEST_F(Hold, PreemptionDefect07_AnOlderStepIsForgotten) {
  Poll(10);
  Poll(3);
  Take(PreemptionPhase::kHolding);
  EXPECT_EQ(Offered(), 11);
}

TEST_F(Hold, PreemptionDefect04_ACounterThatStartsAnewMatchesNowhere) {
  for (int64_t step = 0; step < 100; ++step) Poll(step);
  for (int64_t step = 0; step < 5; ++step) Poll(step);
  Take(PreemptionPhase::kHolding);
  EXPECT_EQ(Offered(), 100) << "behind the largest of all";
  Take(PreemptionPhase::kAgreed, 100);
  for (int64_t step = 5; step < 100; ++step) EXPECT_EQ(Poll(step), Verdict::kNo);
  for (int64_t step = 0; step < 100; ++step) EXPECT_EQ(Poll(step), Verdict::kNo);
}

TEST_F(Hold, BeforeTheFirstStepNothingIsOffered) {
  Take(PreemptionPhase::kHolding);
  EXPECT_EQ(Offered(), std::nullopt);
  EXPECT_EQ(Poll(4000), Verdict::kWait);
  EXPECT_EQ(Offered(), 4000) << "this one can still be saved at";
  Take(PreemptionPhase::kAgreed, 4000);
  EXPECT_EQ(Poll(4000), Verdict::kYes);
}

TEST_F(Hold, WhoseFirstStepIsBehindTheOthersDoesNotSaveAlone) {
  Take(PreemptionPhase::kHolding);
  Take(PreemptionPhase::kAgreed, 7);
  EXPECT_EQ(Poll(9), Verdict::kNo);
  EXPECT_EQ(Offered(), 9) << "the server is told that it passed";
  EXPECT_EQ(Poll(10), Verdict::kNo);
}

TEST_F(Hold, WhoStartsMeanwhileComesByTheStep) {
  Take(PreemptionPhase::kHolding);
  Take(PreemptionPhase::kAgreed, 7);
  EXPECT_EQ(Poll(6), Verdict::kNo);
  EXPECT_EQ(Poll(7), Verdict::kYes);
}

TEST_F(Hold, WhoLearnsOfItLateAndIsBeyondDoesNotSaveAlone) {
  Poll(9);
  Take(PreemptionPhase::kAgreed, 7);
  EXPECT_EQ(Offered(), 9) << "which says that it passed";
  EXPECT_EQ(Poll(10), Verdict::kNo);
  EXPECT_EQ(machine_.hold(), HoldMachine::kDown);
}

TEST_F(Hold, WhoLearnsOfItAtTheStepSavesWithTheOthers) {
  Poll(7);
  Take(PreemptionPhase::kAgreed, 7);
  EXPECT_EQ(Poll(7), Verdict::kYes);
}

TEST_F(Hold, WhoLearnsOfItLateAndIsBeforeItSavesWithTheOthers) {
  Poll(5);
  Take(PreemptionPhase::kAgreed, 7);
  EXPECT_EQ(Poll(6), Verdict::kNo);
  EXPECT_EQ(Poll(7), Verdict::kYes);
}

TEST_F(Hold, NobodyWaitsForASessionThatIsOver) {
  Take(PreemptionPhase::kHolding);
  EXPECT_EQ(Poll(5), Verdict::kWait);
  machine_.SessionEnded();
  EXPECT_EQ(Poll(5), Verdict::kNo);
  EXPECT_EQ(machine_.hold(), HoldMachine::kDown);
}

TEST_F(Hold, AnAgreementWithoutUsCountsOnlyWhereWeComeByIt) {
  Poll(5);
  Take(PreemptionPhase::kHolding);
  EXPECT_EQ(Offered(), 6);
  Take(PreemptionPhase::kAgreed, 5);
  EXPECT_EQ(Poll(6), Verdict::kNo) << "the answer came too late to be heeded";
  EXPECT_EQ(Poll(7), Verdict::kNo);
}

TEST_F(Hold, IsTakenDownWhenThePreemptionEndsWithoutAStep) {
  Poll(5);
  Take(PreemptionPhase::kHolding);
  EXPECT_EQ(Poll(6), Verdict::kWait);
  Take(PreemptionPhase::kEnded);
  EXPECT_EQ(Poll(6), Verdict::kNo);
  EXPECT_EQ(machine_.hold(), HoldMachine::kDown);
}

TEST_F(Hold, IsNotWaitedAtForEver) {
  Poll(5);
  Take(PreemptionPhase::kHolding);
  EXPECT_EQ(Poll(6), Verdict::kWait);
  EXPECT_EQ(machine_.WaitsUntil(), now_ + absl::Seconds(30));
  now_ = machine_.WaitsUntil();
  EXPECT_EQ(Poll(6), Verdict::kNo);
  EXPECT_EQ(Poll(7), Verdict::kNo);
  Take(PreemptionPhase::kAgreed, 6);
  EXPECT_EQ(Poll(8), Verdict::kNo) << "the others saved at a step that it has passed";
}

TEST_F(Hold, ARestartedServerIsToldTheSameAgain) {
  Poll(5);
  Take(PreemptionPhase::kHolding);
  EXPECT_EQ(Poll(6), Verdict::kWait);
  Take(PreemptionPhase::kHolding, {}, 1, /*round=*/1);
  EXPECT_EQ(Offered(), 6);
  Take(PreemptionPhase::kAgreed, 6, 1, 1);
  EXPECT_EQ(Poll(6), Verdict::kYes);
}

TEST_F(Hold, TheNextPreemptionIsAnother) {
  for (int64_t id = 1; id <= 3; ++id) {
    Poll(id * 10);
    Take(PreemptionPhase::kHolding, {}, id);
    EXPECT_EQ(Offered(), id * 10 + 1);
    Take(PreemptionPhase::kAgreed, id * 10 + 1, id);
    EXPECT_EQ(Poll(id * 10 + 1), Verdict::kYes);
    Take(PreemptionPhase::kEnded, id * 10 + 1, id);
  }
}

TEST_F(Hold, WhoHasFinishedIsNotAsked) {
  machine_.Finish(out_);
  EXPECT_EQ(out_.report->state, SyncState::kFinished);
  Take(PreemptionPhase::kHolding);
  EXPECT_FALSE(out_.answer.has_value());
  EXPECT_EQ(Poll(5), Verdict::kNo);
}

class LearntStride : public Hold {
 protected:
  LearntStride() : Hold({}) {}
};

TEST_F(LearntStride, IsTheDivisorOfTheStepsSeen) {
  int64_t step = 103;
  for (int64_t polls : {1, 3, 2, 7, 5, 4, 1, 2, 3}) {
    machine_.Sample(now_, step);
    now_ = now_ + absl::Seconds(polls);
    step += 10 * polls;
  }
  machine_.Sample(now_, step);
  Poll(step);
  Take(PreemptionPhase::kHolding);
  EXPECT_EQ(out_.answer->stride, 10);
  EXPECT_EQ(Offered(), step + 10);
  EXPECT_EQ(out_.answer->step_time_us, 100'000);
}

TEST_F(LearntStride, IsOneUntilItIsKnown) {
  machine_.Sample(now_, 3);
  machine_.Sample(now_ + absl::Seconds(1), 24);
  Poll(24);
  Take(PreemptionPhase::kHolding);
  EXPECT_EQ(out_.answer->stride, 1);
  EXPECT_EQ(Offered(), 25);
}

TEST_F(LearntStride, OfASaveItsTimeIsLearntToo) {
  Poll(5);
  Take(PreemptionPhase::kHolding);
  Take(PreemptionPhase::kAgreed, 6);
  Poll(6);
  machine_.Saved(now_ + absl::Seconds(12), 6, "/ckpt", out_);
  Take(PreemptionPhase::kEnded, 6);
  Take(PreemptionPhase::kHolding, {}, 2);
  EXPECT_EQ(out_.answer->save_time_us, 12'000'000);
}

}  // namespace
}  // namespace lockstep::client

#include "lockstep/coord/sync_members.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <variant>

namespace lockstep::coord {
namespace {

Time After(int64_t seconds) { return Time() + absl::Seconds(seconds); }

class SyncMembersTest : public testing::Test {
 protected:
  void Set(int32_t member, SyncMembers::Entry entry) {
    members_.Set(MemberIndex(member), std::move(entry), out_);
  }
  void Offer(int32_t member, int64_t step, int64_t stride = 1) {
    Set(member, {.state = SyncState::kHeld, .step = step, .stride = stride});
  }
  PreemptionOutcome WhyNot(Time death = Time::Infinite()) const {
    return std::get<SyncMembers::Ending>(members_.Decide(Time(), death)).outcome;
  }

  JobRecord job_{CoordinatorOptions{.size = 4, .preempt_save_estimate = absl::Seconds(10)}};
  SyncMembers members_{job_};
  Effects out_;
};

TEST_F(SyncMembersTest, DecidesOnTheLowestStepOfAll) {
  Offer(0, 5, 2);
  Offer(1, 9, 3);
  Set(2, {.state = SyncState::kSilent});
  EXPECT_EQ(std::get<int64_t>(members_.Decide(Time(), Time::Infinite())), 9);
  EXPECT_EQ(members_.HighestOffer(), 9);
  EXPECT_EQ(out_.records.size(), 3u);
}

TEST_F(SyncMembersTest, SaysWhyThereIsNoStep) {
  Offer(0, 0, 2);
  Offer(1, 1, 2);
  EXPECT_EQ(WhyNot(), PreemptionOutcome::kNoCommonStep);
  Set(0, {.state = SyncState::kHeld, .step = 3, .last_step = 3});
  Offer(1, 4);
  EXPECT_EQ(WhyNot(), PreemptionOutcome::kFinished);
  Offer(0, 4);
  EXPECT_EQ(WhyNot(/*death=*/After(9)), PreemptionOutcome::kCannotSaveInTime);
  EXPECT_EQ(std::get<int64_t>(members_.Decide(Time(), After(11))), 4);
}

TEST_F(SyncMembersTest, AwaitsMembersThatMaySaveYet) {
  Set(0, {.state = SyncState::kReached});
  EXPECT_TRUE(members_.AwaitsSaves());
  Set(0, {.state = SyncState::kReached, .left = true});
  EXPECT_FALSE(members_.AwaitsSaves());
  Set(1, {.state = SyncState::kUnstarted});
  EXPECT_TRUE(members_.AwaitsSaves());
  EXPECT_FALSE(members_.AwaitsAnswers(/*all=*/false));
  EXPECT_TRUE(members_.AwaitsAnswers(/*all=*/true));
}

TEST_F(SyncMembersTest, TheOutcomeIsTheBestThatHoldsOfAll) {
  const auto outcome = [this](std::optional<int64_t> step) {
    return members_.SumUp(step, "", {}).outcome;
  };
  EXPECT_EQ(outcome(7), PreemptionOutcome::kNobodyAnswered);
  Set(0, {.state = SyncState::kSaved});
  EXPECT_EQ(outcome(7), PreemptionOutcome::kSaved);
  Set(1, {.state = SyncState::kReached});
  EXPECT_EQ(outcome(7), PreemptionOutcome::kSynced);
  Set(2, {.state = SyncState::kGone});
  EXPECT_EQ(outcome(7), PreemptionOutcome::kPartlySaved);
  Set(0, {.state = SyncState::kFailed});
  EXPECT_EQ(outcome(7), PreemptionOutcome::kNotSaved);
  for (int32_t i = 0; i < 3; ++i) Set(i, {.state = SyncState::kFinished});
  EXPECT_EQ(outcome(std::nullopt), PreemptionOutcome::kFinished);
}

TEST(SyncListeners, AWatchThatGoesOnDoesNotUndoThatItsProgramFinished) {
  SyncListeners listeners;
  const MemberIndex member(0);
  EXPECT_TRUE(listeners.Watches(member, /*begins=*/false));
  listeners.Finished(member);
  EXPECT_FALSE(listeners.Watches(member, /*begins=*/false));
  EXPECT_TRUE(listeners.IsDone(member));
  EXPECT_TRUE(listeners.Watches(member, /*begins=*/true));
  EXPECT_TRUE(listeners.Listens(member));
}

}  // namespace
}  // namespace lockstep::coord

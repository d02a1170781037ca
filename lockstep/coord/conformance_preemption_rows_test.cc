// Rows of docs/conformance-preemption.md that the coordinator decides.
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"
#include "lockstep/testing/preemption_harness.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::HasError;
using lockstep::testing::PreemptionHarness;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PreemptionRows : public PreemptionHarness {};

TEST_F(PreemptionRows, PreemptionRow05_BehindAMemberInErrorTheOthersStillAgree) {
  const CallId poll = h.Ask(Of(0), PollForError{});
  h.BreakLink(Of(2));
  h.Advance(absl::Seconds(1));
  ASSERT_THAT(h.Reply(poll), HasError(StatusCode::kUnavailable, Reason::kConnectionLost, "task/2"));

  Notify({0});

  EXPECT_THAT(Members(), ElementsAre(SyncState::kAsked, SyncState::kAsked));
  Answer(0, 5);
  Answer(1, 6);
  EXPECT_EQ(SyncStep(), 6);
}

TEST_F(PreemptionRows, PreemptionRow15_WhoAsksLaterIsToldTheTimeOfTheNotice) {
  Notify({0}, absl::Seconds(30));
  const Time death = h.now() + absl::Seconds(30);
  h.Advance(absl::Seconds(2));
  const CallId late = h.Ask(kTool, WatchPreemption{.after = 0});
  EXPECT_EQ(h.Brought<PreemptionChanged>(late).state->death, death);
}

TEST_F(PreemptionRows, PreemptionRow16_AllAreToldTheSame) {
  Notify({0}, absl::Hours(1));
  const int64_t version = State().version;
  const CallId one = h.Ask(kTool, WatchPreemption{.after = version});
  const CallId other = h.Ask(Of(1), WatchPreemption{.after = version});
  Notify({1}, absl::Minutes(40));
  EXPECT_EQ(h.Brought<PreemptionChanged>(one).state->death, h.now() + absl::Minutes(40));
  EXPECT_EQ(h.Brought<PreemptionChanged>(one).state, h.Brought<PreemptionChanged>(other).state);
}

TEST_F(PreemptionRows, PreemptionRow23_AnErrorInAStepIsToldToAllAndTheOthersSave) {
  const CallId poll = h.Ask(Of(0), PollForError{});
  Notify({0});
  for (int member : {0, 1, 2}) Answer(member, 5);
  h.Ask(Of(1), ReportError{.code = StatusCode::kInternal, .message = "nan in step 5"});
  EXPECT_THAT(h.Reply(poll),
              HasError(StatusCode::kInternal, Reason::kReportedError, "nan in step 5"));
  Report(0, SyncState::kSaved, 5);
  Report(2, SyncState::kSaved, 5);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kPartlySaved);
  EXPECT_THAT(State().text, HasSubstr("task/1#1 gone"));
}

// Upstream's second agreed step: with a far death there is one save soon, and another at the end.
TEST_F(PreemptionRows, PreemptionRow24_WorkGoesOnBetweenTwoSaves) {
  Notify({0}, absl::Minutes(10));
  for (int member : {0, 1, 2}) Answer(member, 5);
  SaveAll(5);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kSaved);
  // Nobody is stopped now, and nobody has gone.
  Work(absl::Minutes(9));
  Notify({0}, absl::Minutes(1));
  EXPECT_EQ(State().id, 2);
  for (int member : {0, 1, 2}) Answer(member, 900);
  EXPECT_EQ(SyncStep(), 900);
  SaveAll(900);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kSaved);
}

TEST_F(PreemptionRows, PreemptionRow27_AnInterruptedSaveIsNeverToldAsSaved) {
  Notify({0});
  for (int member : {0, 1, 2}) Answer(member, 5);
  for (int member : {0, 1, 2}) Report(member, SyncState::kReached, 5);
  Report(0, SyncState::kSaved, 5, "/ckpt/5");
  Report(1, SyncState::kSaved, 5, "/ckpt/5");
  // In the midst of writing.
  h.BreakLink(Of(2));
  h.Advance(absl::Seconds(1));
  EXPECT_EQ(Outcome(), PreemptionOutcome::kPartlySaved);
  EXPECT_THAT(State().text, HasSubstr("2 of 3 members saved at step 5; task/2#1 gone"));
}

TEST_F(PreemptionRows, PreemptionGap02_AResumedCounterIsTakenAsItIs) {
  const int64_t far = int64_t{1} << 40;
  Notify({0});
  Answer(0, far + 3);
  Answer(1, far + 1);
  Answer(2, far + 2);
  EXPECT_EQ(SyncStep(), far + 3);
}

// Who leaves polls no step any more, also while it waits for the others to leave.
TEST_F(PreemptionRows, PreemptionGap04_WhoLeavesBeforeTheStepHoldsNobodyUp) {
  Notify({0});
  Answer(0, 5);
  Answer(1, 6);
  h.Ask(Of(2), LeaveJob{});
  EXPECT_EQ(SyncStep(), 6) << "before there was a step";
  Report(0, SyncState::kSaved, 6);
  h.Ask(Of(1), LeaveJob{});
  EXPECT_EQ(Phase(), PreemptionPhase::kEnded) << "and behind that";
  EXPECT_EQ(Outcome(), PreemptionOutcome::kPartlySaved);
  EXPECT_THAT(State().text, HasSubstr("task/1#1, task/2#1 finished"));
}

// The library goes on to watch until it hears that it should not.
TEST_F(PreemptionRows, PreemptionGap04_AWatchBehindTheLastWordIsNoReasonToWait) {
  Notify({0}, absl::Hours(1));
  h.Ask(Of(1), ReportSave{.preemption = 1, .state = SyncState::kFinished});
  h.Ask(Of(2), LeaveJob{});
  for (int member : {0, 1, 2}) Listen(member);
  Notify({0}, absl::Minutes(1));
  EXPECT_THAT(Members(), ElementsAre(SyncState::kAsked)) << "of the first alone";
  Answer(0, 5);
  Report(0, SyncState::kSaved, 5);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kSaved);

  // Another part of the program begins to poll.
  h.Ask(Of(1), WatchPreemption{.after = 0, .answers = true});
  Notify({0});
  EXPECT_THAT(Members(), ElementsAre(SyncState::kAsked, SyncState::kAsked));
}

class PreemptionOfTwo : public PreemptionHarness {
 protected:
  PreemptionOfTwo() : PreemptionHarness(CoordinatorOptions{.size = 3}, /*listeners=*/2) {}
};

TEST_F(PreemptionOfTwo, PreemptionGap19_WhoComesWhileTheOthersAgreeIsAskedToo) {
  Notify({0});
  Answer(0, 5);
  Listen(2);
  Answer(1, 6);
  EXPECT_EQ(Phase(), PreemptionPhase::kHolding) << "it is waited for";
  Answer(2, 9);
  EXPECT_EQ(SyncStep(), 9);
}

TEST_F(PreemptionOfTwo, PreemptionGap19_WhoComesBehindTheAgreementSavesWithTheOthers) {
  Notify({0});
  for (int member : {0, 1}) Answer(member, 5);
  ASSERT_EQ(SyncStep(), 5);
  Listen(2);
  EXPECT_THAT(Members(), ElementsAre(SyncState::kHeld, SyncState::kHeld, SyncState::kLate));
  Report(0, SyncState::kSaved, 5);
  Report(1, SyncState::kSaved, 5);
  EXPECT_EQ(Phase(), PreemptionPhase::kAgreed) << "it is waited for";
  Answer(2, 5);
  Report(2, SyncState::kSaved, 5);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kSaved);
}

TEST_F(PreemptionOfTwo, PreemptionGap19_WhoComesTooLateIsNotWaitedFor) {
  Notify({0});
  for (int member : {0, 1}) Answer(member, 5);
  Listen(2);
  Answer(2, 9);
  Report(0, SyncState::kSaved, 5);
  Report(1, SyncState::kSaved, 5);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kPartlySaved);
  EXPECT_THAT(State().text, HasSubstr("task/2#1 passed"));
}

TEST_F(PreemptionRows, PreemptionGap20_NoticesToAllAtOnceAreOnePreemption) {
  for (int member : {0, 1, 2}) {
    h.Ask(Of(member), NotifyPreemption{.source = "signal", .event = std::to_string(member)});
  }
  EXPECT_EQ(State().id, 1);
  EXPECT_EQ(State().notices.size(), 3u);
  for (int member : {0, 1, 2}) Answer(member, 5);
  SaveAll(5);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kSaved);
  EXPECT_EQ(State().id, 1);
}

// A counter that starts anew with each epoch never comes to a step behind the largest it had: that
// is told, and nobody saves elsewhere.
TEST_F(PreemptionRows, PreemptionDefect04_AStepThatNobodyComesToIsToldInTheEnd) {
  Notify({0}, absl::Seconds(30));
  for (int member : {0, 1, 2}) Answer(member, 100);
  Work(absl::Minutes(11));
  EXPECT_EQ(Outcome(), PreemptionOutcome::kNotSaved);
  EXPECT_THAT(State().text, HasSubstr("0 of 3 members saved at step 100"));
  EXPECT_THAT(State().text, HasSubstr("task/0#1, task/1#1, task/2#1 held"));
}

class OtherTimes : public PreemptionHarness {
 protected:
  OtherTimes()
      : PreemptionHarness(CoordinatorOptions{.size = 2,
                                             .preempt_window = absl::Minutes(2),
                                             .preempt_sync_timeout = absl::Milliseconds(100),
                                             .preempt_save_timeout = absl::Hours(2)}) {}
};

TEST_F(OtherTimes, PreemptionDefect09_WindowAndTimeoutsAreOptions) {
  Notify({0}, absl::Minutes(10));
  Work(absl::Minutes(7));
  EXPECT_EQ(Phase(), PreemptionPhase::kPending);
  Work(absl::Minutes(1));
  EXPECT_EQ(Phase(), PreemptionPhase::kHolding);
  Answer(0, 5);
  h.Advance(absl::Milliseconds(100));
  EXPECT_EQ(SyncStep(), 5);
  Report(0, SyncState::kReached, 5);
  Work(absl::Hours(1));
  EXPECT_EQ(Phase(), PreemptionPhase::kAgreed) << "a large checkpoint takes its time";
  Report(0, SyncState::kSaved, 5);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kPartlySaved);
}

}  // namespace
}  // namespace lockstep::coord

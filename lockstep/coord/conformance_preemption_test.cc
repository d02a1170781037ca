// From a notice to its outcome: what the coordinator decides, and whom it asks and tells.
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"
#include "lockstep/testing/preemption_harness.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::HasError;
using lockstep::testing::Native;
using lockstep::testing::PreemptionHarness;
using lockstep::testing::Succeeded;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Act = NotifyPreemption::Act;

class Preemption : public PreemptionHarness {
 protected:
  using PreemptionHarness::PreemptionHarness;
};

TEST_F(Preemption, AllSaveAtTheFirstStepThatIsInNobodysPast) {
  const CallId watch = h.Ask(kTool, WatchPreemption{});
  EXPECT_TRUE(h.Pending(watch));

  EXPECT_THAT(h.Reply(Notify({1})), Succeeded());

  EXPECT_EQ(h.Brought<PreemptionChanged>(watch).state->phase, PreemptionPhase::kHolding);
  EXPECT_THAT(Members(), ElementsAre(SyncState::kAsked, SyncState::kAsked, SyncState::kAsked));
  Answer(0, 5);
  Answer(1, 7);
  EXPECT_EQ(Phase(), PreemptionPhase::kHolding);
  Answer(2, 6);
  EXPECT_EQ(Phase(), PreemptionPhase::kAgreed);
  EXPECT_EQ(SyncStep(), 7);

  Report(0, SyncState::kReached, 7);
  Report(0, SyncState::kSaved, 7, "/ckpt/7");
  Report(1, SyncState::kSaved, 7);
  EXPECT_EQ(Phase(), PreemptionPhase::kAgreed);
  Report(2, SyncState::kSaved, 7);
  EXPECT_EQ(Phase(), PreemptionPhase::kEnded);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kSaved);
  EXPECT_EQ(State().text, "3 of 3 members saved at step 7");
  EXPECT_EQ(h.View().preemption->members[0].text, "/ckpt/7");
}

TEST_F(Preemption, EveryWatcherIsToldEveryChangeOnce) {
  Notify({0});
  const CallId behind = h.Ask(kTool, WatchPreemption{.after = 0});
  const int64_t version = h.Brought<PreemptionChanged>(behind).state->version;
  EXPECT_EQ(version, State().version);
  const CallId current = h.Ask(kTool, WatchPreemption{.after = version});
  EXPECT_TRUE(h.Pending(current));
  Answer(0, 1);
  EXPECT_TRUE(h.Pending(current)) << "what one member says is nobody's but the status's";
  Answer(1, 1);
  Answer(2, 1);
  EXPECT_EQ(h.Brought<PreemptionChanged>(current).state->sync_step, 1);
}

// Upstream's "max + 1" is no step of anybody who polls every tenth.
TEST_F(Preemption, PreemptionGap01_IsOnTheStridesOfAll) {
  Notify({0});
  Answer(0, 100, 10);
  Answer(1, 110, 10);
  Answer(2, 104, 2);
  EXPECT_EQ(SyncStep(), 110);
}

TEST_F(Preemption, StridesThatNeverMeetAreToldAtOnce) {
  Notify({0});
  Answer(0, 100, 2);
  Answer(1, 101, 2);
  Answer(2, 100, 1);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kNoCommonStep);
  EXPECT_EQ(SyncStep(), std::nullopt);
}

// A resumed job whose members have not begun their first step.
TEST_F(Preemption, PreemptionDefect02_WhoHasNotBegunIsNotAtStepZero) {
  Notify({0});
  Answer(0, std::nullopt);
  Answer(1, std::nullopt);
  Answer(2, std::nullopt);
  EXPECT_EQ(Phase(), PreemptionPhase::kHolding) << "nobody has a step to offer";
  h.Advance(absl::Seconds(10));
  EXPECT_EQ(Phase(), PreemptionPhase::kHolding);

  Answer(1, 4000);
  EXPECT_EQ(SyncStep(), 4000) << "the others come by it, too";
  Answer(0, 4000);
  Answer(2, 4000);
  SaveAll(4000);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kSaved);
}

TEST_F(Preemption, PreemptionGap03_WhoIsAboutToBeginIsWaitedFor) {
  Notify({0});
  Answer(0, 5);
  Answer(1, 5);
  Answer(2, std::nullopt);
  EXPECT_EQ(SyncStep(), 5);
  Report(0, SyncState::kSaved, 5);
  Report(1, SyncState::kSaved, 5);
  EXPECT_EQ(Phase(), PreemptionPhase::kAgreed);
  Report(2, SyncState::kSaved, 5);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kSaved);
}

TEST_F(Preemption, WhoNeverBeginsEndsIt) {
  Notify({0}, absl::Seconds(30));
  for (int member : {0, 1, 2}) Answer(member, std::nullopt);
  h.Advance(absl::Seconds(31));
  EXPECT_EQ(Outcome(), PreemptionOutcome::kNobodyAnswered);
  EXPECT_THAT(State().text, HasSubstr("unstarted"));
}

// The fastest has done its last step.
TEST_F(Preemption, PreemptionDefect03_TheEndOfTheWorkIsAnOutcome) {
  Notify({0});
  Answer(0, 100, 1, {}, 99);
  Answer(1, 98, 1, {}, 99);
  Answer(2, 99, 1, {}, 99);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kFinished);
  EXPECT_THAT(State().text, HasSubstr("the work ends at step 99, before step 100"));
}

TEST_F(Preemption, AMemberThatFinishesMeanwhileIsNotWaitedFor) {
  Notify({0});
  Answer(0, 5);
  Report(1, SyncState::kFinished);
  Answer(2, 6);
  EXPECT_EQ(SyncStep(), 6);
  Report(0, SyncState::kSaved, 6);
  Report(2, SyncState::kSaved, 6);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kPartlySaved);
  EXPECT_THAT(State().text, HasSubstr("task/1#1 finished"));
}

// A member that is dead, or hangs.
TEST_F(Preemption, PreemptionDefect05_WhoDoesNotAnswerIsLeftOutInTime) {
  Notify({0});
  Answer(0, 5);
  Answer(1, 6);
  h.Advance(absl::Seconds(5));
  EXPECT_EQ(SyncStep(), 6);
  EXPECT_THAT(Members(), ElementsAre(SyncState::kHeld, SyncState::kHeld, SyncState::kSilent));
  Report(0, SyncState::kSaved, 6);
  Report(1, SyncState::kSaved, 6);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kPartlySaved);
  EXPECT_THAT(State().text, HasSubstr("task/2#1 silent"));
}

TEST_F(Preemption, WhoAnswersTooLateIsToldThatItPassed) {
  Notify({0});
  Answer(0, 5);
  Answer(1, 6);
  h.Advance(absl::Seconds(5));
  Answer(2, 9);
  EXPECT_THAT(Members(), ElementsAre(SyncState::kHeld, SyncState::kHeld, SyncState::kPassed));
  EXPECT_EQ(SyncStep(), 6) << "what was told is never taken back";
}

TEST_F(Preemption, PreemptionGap05_AMemberThatDiesIsNotWaitedForAndTheOthersSave) {
  Notify({2}, absl::Seconds(30), "gce", "1");
  Answer(0, 5);
  Answer(1, 6);
  h.BreakLink(Of(2));
  h.Advance(absl::Seconds(1));
  EXPECT_EQ(SyncStep(), 6) << "although the attempt has failed by it";
  Report(0, SyncState::kSaved, 6);
  Report(1, SyncState::kSaved, 6);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kPartlySaved);
  EXPECT_THAT(State().text, HasSubstr("task/2#1 gone"));
}

TEST_F(Preemption, AMemberThatDiesBehindTheAgreementDoesNotHoldItOpen) {
  Notify({2});
  for (int member : {0, 1, 2}) Answer(member, 5);
  Report(0, SyncState::kSaved, 5);
  Report(1, SyncState::kSaved, 5);
  h.BreakLink(Of(2));
  h.Advance(absl::Seconds(1));
  EXPECT_EQ(Outcome(), PreemptionOutcome::kPartlySaved);
}

// Not in time.
TEST_F(Preemption, PreemptionDefect10_SaysAtOnceThatThereIsNoTime) {
  Notify({0}, absl::Seconds(30));
  Answer(0, 5, 1, absl::Seconds(10));
  Answer(1, 9, 1, absl::Seconds(10));
  Answer(2, 9, 1, absl::Seconds(10));
  EXPECT_EQ(Outcome(), PreemptionOutcome::kCannotSaveInTime);
  EXPECT_THAT(State().text, HasSubstr("task/0#1 needs 40s from step 5 to step 9"));
  EXPECT_THAT(State().text, HasSubstr("but 30s are left"));
}

TEST_F(Preemption, PreemptionGap08_ADeathInThePastIsTriedAnyhow) {
  Notify({0}, -absl::Seconds(10));
  for (int member : {0, 1, 2}) Answer(member, 5);
  EXPECT_EQ(SyncStep(), 5);
}

TEST(PreemptionOptions, ASaveTakesTimeToo) {
  class WithEstimate : public Preemption {
   public:
    WithEstimate()
        : Preemption(CoordinatorOptions{.size = 1, .preempt_save_estimate = absl::Minutes(1)}) {}
    void TestBody() override {
      Notify({0}, absl::Seconds(30));
      Answer(0, 5);
      EXPECT_EQ(Outcome(), PreemptionOutcome::kCannotSaveInTime);
      Notify({0}, absl::Seconds(61));
      Answer(0, 5);
      EXPECT_EQ(SyncStep(), 5);
    }
  };
  WithEstimate().TestBody();
}

// A death in an hour.
TEST_F(Preemption, PreemptionRow04_WaitsForItsWindow) {
  Notify({0}, absl::Hours(1));
  EXPECT_EQ(Phase(), PreemptionPhase::kPending);
  Work(absl::Minutes(44));
  EXPECT_EQ(Phase(), PreemptionPhase::kPending);
  Work(absl::Minutes(2));
  EXPECT_EQ(Phase(), PreemptionPhase::kHolding);
}

TEST_F(Preemption, ASecondNoticeBelongsToTheOpenOne) {
  Notify({0}, absl::Seconds(60));
  Notify({1}, absl::Seconds(30));
  EXPECT_EQ(State().id, 1);
  EXPECT_EQ(State().death, h.now() + absl::Seconds(30));
  EXPECT_EQ(State().notices.size(), 2u);
}

TEST_F(Preemption, TheSameEventIsOneNotice) {
  for (int i = 0; i < 3; ++i) Notify({0}, absl::Seconds(30), "aws", "e1");
  EXPECT_EQ(State().notices.size(), 1u);
  for (int member : {0, 1, 2}) Answer(member, 5);
  SaveAll(5);
  Notify({0}, absl::Seconds(30), "aws", "e1");
  EXPECT_EQ(State().id, 1) << "it is still told, and is still the same";
  EXPECT_EQ(Phase(), PreemptionPhase::kEnded);
}

TEST_F(Preemption, PreemptionGap21_ASignalForTheSameDeathIsNoNewOne) {
  Notify({0}, absl::Seconds(30), "gce", "preempted");
  for (int member : {0, 1, 2}) Answer(member, 5);
  SaveAll(5);
  EXPECT_EQ(h.Brought<PreemptionNoted>(Notify({0}, {}, "signal", "15")).preemption, 1);
  EXPECT_EQ(Phase(), PreemptionPhase::kEnded);
  Notify({1}, {}, "signal", "16");
  EXPECT_EQ(State().id, 2) << "that is somebody else";
}

// Once more, in the same processes.
TEST_F(Preemption, PreemptionDefect08_TheNextMayOpenAtOnce) {
  for (int64_t round = 1; round <= 3; ++round) {
    Notify({0});
    EXPECT_EQ(State().id, round);
    for (int member : {0, 1, 2}) Answer(member, round * 10);
    EXPECT_EQ(SyncStep(), round * 10);
    SaveAll(round * 10);
    EXPECT_EQ(Outcome(), PreemptionOutcome::kSaved);
  }
}

TEST_F(Preemption, IsCancelledBeforeTheStepIsKnown) {
  Notify({0}, absl::Seconds(30), "gce", "m");
  Answer(0, 5);
  h.Ask(kTool, Notice({}, {}, "gce", "m", Act::kWithdraw));
  EXPECT_EQ(Outcome(), PreemptionOutcome::kCancelled);
  Notify({0}, absl::Seconds(30), "gce", "m");
  EXPECT_EQ(State().id, 2) << "it came back";
}

TEST_F(Preemption, IsSavedThoughWithdrawnBehindTheStep) {
  Notify({0});
  for (int member : {0, 1, 2}) Answer(member, 5);
  h.Ask(kTool, Notice({}, {}, "operator", "", Act::kWithdraw));
  EXPECT_EQ(Phase(), PreemptionPhase::kAgreed);
  EXPECT_TRUE(State().withdrawn);
  EXPECT_EQ(SyncStep(), 5) << "some may be there already";
  SaveAll(5);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kSaved);
}

TEST_F(Preemption, PreemptionGap07_OfTwoNoticesOneMayBeWithdrawn) {
  Notify({0}, absl::Seconds(20), "gce", "a");
  Notify({1}, absl::Seconds(40), "aws", "b");
  h.Ask(kTool, Notice({}, {}, "gce", "a", Act::kWithdraw));
  EXPECT_EQ(Phase(), PreemptionPhase::kHolding);
  EXPECT_EQ(State().death, h.now() + absl::Seconds(40));
}

TEST_F(Preemption, IsExtended) {
  Notify({0}, absl::Seconds(10));
  h.Ask(kTool, Notice({}, absl::Hours(2), "operator", "", Act::kExtend));
  EXPECT_EQ(State().death, h.now() + absl::Hours(2));
  Answer(0, 5, 1, absl::Seconds(30));
  Answer(1, 6);
  Answer(2, 6);
  EXPECT_EQ(SyncStep(), 6);
}

TEST_F(Preemption, ThereMustBeOneToCancelOrExtend) {
  for (Act act : {Act::kWithdraw, Act::kExtend}) {
    EXPECT_THAT(h.Reply(h.Ask(kTool, Notice({}, absl::Seconds(1), "operator", "", act))),
                HasError(StatusCode::kNotFound, Reason::kNoPreemption, "has no open preemption"));
  }
}

TEST_F(Preemption, BadNoticesAreRefused) {
  EXPECT_THAT(h.Reply(Notify({7})),
              HasError(StatusCode::kInvalidArgument, Reason::kUnknownMember, "task/7"));
  EXPECT_THAT(h.Reply(Notify({0}, {}, "")),
              HasError(StatusCode::kInvalidArgument, Reason::kInvalidArgument, "its source"));
  EXPECT_THAT(h.Reply(Notify({0}, {}, std::string(300, 'x'))),
              HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "label_bytes_max"));
  NotifyPreemption elsewhere{.source = "operator", .host = "nowhere"};
  EXPECT_THAT(h.Reply(h.Ask(kTool, elsewhere)),
              HasError(StatusCode::kNotFound, Reason::kUnknownMember, "on host 'nowhere'"));
  EXPECT_EQ(State().id, 0);
  Notify({0});
  EXPECT_THAT(h.Reply(h.Ask(Of(0), AnswerHold{.preemption = 1, .first = 3, .stride = 0})),
              HasError(StatusCode::kInvalidArgument, Reason::kInvalidArgument, "stride"));
}

TEST_F(Preemption, AMemberSpeaksForItself) {
  h.Ask(Of(1), NotifyPreemption{.source = "signal", .event = "1"});
  EXPECT_THAT(State().notices.at(0).subjects, ElementsAre(MemberIndex(1)));
}

TEST_F(Preemption, WhoJoinsTheListenersLateLearnsOfIt) {
  Notify({0});
  for (int member : {0, 1, 2}) Answer(member, 5);
  h.Ask(Of(2), ReportSave{.preemption = 1, .state = SyncState::kFinished});
  EXPECT_THAT(Members(), ElementsAre(SyncState::kHeld, SyncState::kHeld, SyncState::kFinished));
  Report(0, SyncState::kSaved, 5);
  Report(1, SyncState::kSaved, 5);
  EXPECT_EQ(Phase(), PreemptionPhase::kEnded);
}

TEST_F(Preemption, WhoLeavesAtTheStepWithoutAWordIsCounted) {
  Notify({0});
  for (int member : {0, 1, 2}) Answer(member, 5);
  for (int member : {0, 1, 2}) Report(member, SyncState::kReached, 5);
  for (int member : {0, 1, 2}) h.Ask(Of(member), LeaveJob{});
  EXPECT_EQ(Outcome(), PreemptionOutcome::kSynced);
}

TEST_F(Preemption, AFailedSaveIsToldAsSuch) {
  Notify({0});
  for (int member : {0, 1, 2}) Answer(member, 5);
  Report(0, SyncState::kFailed, 5, "disk full");
  Report(1, SyncState::kFailed, 5, "disk full");
  Report(2, SyncState::kFailed, 5, "disk full");
  EXPECT_EQ(Outcome(), PreemptionOutcome::kNotSaved);
}

TEST_F(Preemption, EndsWithItsAttemptAndIsTold) {
  Notify({0});
  for (int member : {0, 1, 2}) Answer(member, 5);
  const CallId watch = h.Ask(kTool, WatchPreemption{.after = State().version});
  for (int member : {0, 1, 2}) h.BreakLink(Of(member));
  h.Advance(absl::Seconds(2));
  h.Open(Native(7));
  h.Join(Native(7), 700, {.index = 0});
  EXPECT_EQ(h.View().attempt, 2);
  EXPECT_EQ(h.Brought<PreemptionChanged>(watch).state->phase, PreemptionPhase::kEnded);
  EXPECT_EQ(State().id, 0) << "the next attempt has none yet";
}

TEST_F(Preemption, EndsThoughNobodySaysAnything) {
  Notify({0});
  for (int member : {0, 1, 2}) Answer(member, 5);
  Work(absl::Minutes(11));
  EXPECT_EQ(Phase(), PreemptionPhase::kEnded);
  EXPECT_EQ(Outcome(), PreemptionOutcome::kNotSaved);
}

// The server dies in each phase.
TEST_F(Preemption, PreemptionGap16_GoesOnWithTheNextServer) {
  for (const bool from_snapshot : {false, true}) {
    Notify({0}, absl::Seconds(60));
    const int64_t id = State().id;
    Answer(0, 5);
    h.Restart(from_snapshot);
    EXPECT_EQ(Phase(), PreemptionPhase::kHolding);
    EXPECT_EQ(State().death, h.now() + absl::Seconds(60));
    for (int member : {0, 1, 2}) {
      h.Open(Of(member), true);
      Listen(member);
    }
    h.Open(kTool, true);
    // What they said to the former one is asked once more.
    for (int member : {0, 1, 2}) Answer(member, 7);
    EXPECT_EQ(SyncStep(), 7);
    Report(0, SyncState::kSaved, 7);
    h.Restart(from_snapshot);
    EXPECT_EQ(SyncStep(), 7);
    EXPECT_THAT(Members(), ElementsAre(SyncState::kSaved, SyncState::kHeld, SyncState::kHeld));
    for (int member : {0, 1, 2}) h.Open(Of(member), true);
    h.Open(kTool, true);
    Report(1, SyncState::kSaved, 7);
    Report(2, SyncState::kSaved, 7);
    EXPECT_EQ(Outcome(), PreemptionOutcome::kSaved);
    EXPECT_EQ(State().id, id);
  }
}

// --- Stock JAX members ---

class StockPreemption : public ::testing::Test {
 protected:
  StockPreemption() {
    h.RegisterAll();
    h.PollAll();
    for (int member : {0, 1}) notices.push_back(h.Get(member, "RECEIVED_PREEMPTION_NOTICE"));
    h.Open(kTool);
  }
  void Notify() { h.Ask(kTool, NotifyPreemption{.source = "operator", .left = absl::Seconds(30)}); }
  PreemptionState State() const { return h.View().preemption->state; }

  static inline const Native kTool{99};
  CoordinatorHarness h{{.size = 2}};
  std::vector<CallId> notices;
};

TEST_F(StockPreemption, AreToldByUpstreamsKeyAndReadAlong) {
  Notify();
  for (CallId notice : notices) EXPECT_EQ(h.Value(notice), "1970-01-01T00:00:00+00:00");
  h.Set(0, "PREEMPTION_CURRENT_COUNTER/0", "41");
  h.Set(1, "PREEMPTION_CURRENT_COUNTER//job:jax_worker/task:1", "43");
  for (int member : {0, 1}) h.Arrive(member, "PREEMPTION_SYNC_BARRIER");
  EXPECT_EQ(State().sync_step, 44);
  EXPECT_EQ(State().outcome, PreemptionOutcome::kSynced);
}

TEST_F(StockPreemption, OfOneThatWasTold) {
  h.Set(1, "RECEIVED_PREEMPTION_NOTICE", "2026-01-01T00:00:00+00:00");
  for (CallId notice : notices) EXPECT_EQ(h.Value(notice), "2026-01-01T00:00:00+00:00");
  EXPECT_EQ(State().phase, PreemptionPhase::kHolding);
  EXPECT_EQ(State().notices.at(0).source, "jax");
}

TEST_F(StockPreemption, UseA08_OfOneThatItsLauncherEndsIsNone) {
  h.ProcessStarted(1, 52);
  h.ProcessEnding(1, 52);
  h.Set(1, "RECEIVED_PREEMPTION_NOTICE", "2026-01-01T00:00:00+00:00");
  EXPECT_EQ(State().id, 0) << "the run ends, and nobody is preempted";
  // Its successor is another process.
  h.ProcessStarted(1, 53);
  h.Set(1, "RECEIVED_PREEMPTION_NOTICE", "2026-01-01T00:00:00+00:00", /*overwrite=*/true);
  EXPECT_EQ(State().id, 1);
}

TEST_F(StockPreemption, ThatDoNotMeet) {
  Notify();
  h.Arrive(0, "PREEMPTION_SYNC_BARRIER", {.timeout = absl::Seconds(10)});
  h.Advance(absl::Seconds(10));
  EXPECT_EQ(State().outcome, PreemptionOutcome::kNobodyAnswered);
  EXPECT_THAT(State().text, HasSubstr("did not meet at upstream's barrier"));
}

}  // namespace
}  // namespace lockstep::coord

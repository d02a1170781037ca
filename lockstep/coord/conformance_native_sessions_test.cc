// Sessions of native clients: what outlives a link, and that a retry has its effect once.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::HasError;
using lockstep::testing::IsAbout;
using lockstep::testing::Native;
using lockstep::testing::Succeeded;
using ::testing::HasSubstr;

const Native kFirst(1);
const Native kSecond(2);
const Native kTool(9);

TEST(Sessions, ARequestWithoutASessionIsRefused) {
  CoordinatorHarness h({.size = 2});

  EXPECT_THAT(h.Reply(h.Ask(kFirst, SetKey{.key = "a", .value = "1"})),
              HasError(StatusCode::kNotFound, Reason::kUnknownSession));
  EXPECT_THAT(h.Reply(h.Join(kFirst, 500)),
              HasError(StatusCode::kNotFound, Reason::kUnknownSession));
}

TEST(Sessions, AnUnknownOneIsNotResumed) {
  CoordinatorHarness h({.size = 2});

  EXPECT_THAT(h.Reply(h.Open(kFirst, true)),
              HasError(StatusCode::kNotFound, Reason::kUnknownSession, "begin a new session"));
  const SessionOpened opened = h.Brought<SessionOpened>(h.Open(kFirst));
  EXPECT_FALSE(opened.resumed);
  EXPECT_EQ(opened.size, 2);
  EXPECT_EQ(opened.attempt, 1);
  h.BreakLink(kFirst);
  EXPECT_TRUE(h.Brought<SessionOpened>(h.Open(kFirst, true)).resumed);
}

TEST(Sessions, OneMoreThanTheLimitIsRefused) {
  CoordinatorHarness h({.size = 2, .sessions_max = 2});
  h.Open(kFirst);
  h.Open(kSecond);

  EXPECT_THAT(h.Reply(h.Open(kTool)),
              HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "sessions_max"));
  EXPECT_THAT(h.Reply(h.Ask(kFirst, CloseSession{})), Succeeded());
  EXPECT_THAT(h.Reply(h.Open(kTool)), Succeeded());
}

TEST(Sessions, OneThatIsNoMembersMayReadAndWriteKeysOnly) {
  CoordinatorHarness h({.size = 2});
  h.Open(kTool);

  EXPECT_THAT(h.Reply(h.Ask(kTool, SetKey{.key = "a", .value = "1"})), Succeeded());
  EXPECT_EQ(h.Value(h.Ask(kTool, TryGetKey{.key = "a"})), "1");
  EXPECT_THAT(h.Reply(h.Ask(kTool, TryGetKey{.key = "b"})),
              HasError(StatusCode::kNotFound, Reason::kKeyNotFound, "key 'b' not found"));
  EXPECT_THAT(h.Reply(h.Ask(kTool, WatchJob{})), Succeeded());
  EXPECT_THAT(h.Reply(h.Ask(kTool, ArriveAtBarrier{.id = "b"})),
              HasError(StatusCode::kFailedPrecondition, Reason::kNotAMember, "join it first"));
  EXPECT_THAT(h.Reply(h.Ask(kTool, ReportProgress{.step = 1})),
              HasError(StatusCode::kFailedPrecondition, Reason::kNotAMember));
  EXPECT_THAT(h.Reply(h.Ask(kTool, SetKey{.key = "a", .lifetime = {.with_member = true}})),
              HasError(StatusCode::kFailedPrecondition, Reason::kNotAMember));
}

TEST(Sessions, OneWithoutAMemberIsForgottenAfterItsTimeout) {
  CoordinatorHarness h({.size = 2, .session_timeout = absl::Seconds(30)});
  h.Open(kTool);
  h.BreakLink(kTool);

  h.Advance(absl::Seconds(29));
  EXPECT_THAT(h.Reply(h.Open(kTool, true)), Succeeded());
  h.BreakLink(kTool);
  h.Advance(absl::Seconds(31));

  EXPECT_THAT(h.Reply(h.Open(kTool, true)),
              HasError(StatusCode::kNotFound, Reason::kUnknownSession, "30s after"));
}

TEST(Sessions, ARepliedIncrementThatIsAskedAgainCountsOnce) {
  CoordinatorHarness h({.size = 2});
  h.Open(kTool);
  const KeyRead first = h.Brought<KeyRead>(h.Ask(kTool, IncrementKey{.key = "n", .increment = 5}));
  const uint64_t number = h.LastNumber(kTool);
  h.BreakLink(kTool);
  h.Open(kTool, true);

  const KeyRead again =
      h.Brought<KeyRead>(h.Ask(kTool.Again(number), IncrementKey{.key = "n", .increment = 5}));

  EXPECT_EQ(*again.entry.value, *first.entry.value);
  EXPECT_EQ(again.entry.revision, first.entry.revision);
  EXPECT_EQ(h.Value(h.Ask(kTool, TryGetKey{.key = "n"})), "5");
}

TEST(Sessions, ARequestIsNotAnsweredWithTheAnswerOfAnother) {
  CoordinatorHarness h({.size = 2, .sessions_max = 1});
  h.Open(kTool);
  h.Ask(kTool, SetKey{.key = "a", .value = "1"});
  const uint64_t number = h.LastNumber(kTool);

  EXPECT_THAT(
      h.Reply(h.Ask(kTool.Again(number), CloseSession{})),
      HasError(StatusCode::kInvalidArgument, Reason::kInvalidArgument, "number of its own"));

  EXPECT_THAT(h.Reply(h.Ask(kTool, CloseSession{})), Succeeded());
  EXPECT_THAT(h.Reply(h.Open(kFirst)), Succeeded());
}

TEST(Sessions, Finding07_ALongDeletionThatIsAskedAgainHappensOnce) {
  CoordinatorHarness h({.size = 2});
  h.Open(kTool);
  h.Open(kFirst);
  for (int i = 0; i < 3000; ++i) {
    h.Ask(kFirst, SetKey{.key = absl::StrCat("k/", i)});
    h.AnsweredThrough(kFirst, h.LastNumber(kFirst));
  }
  const CallId lost = h.Ask(kTool, DeleteKey{.key = "k", .only_key = false});
  const uint64_t number = h.LastNumber(kTool);
  EXPECT_TRUE(h.Pending(lost));
  h.BreakLink(kTool);
  h.Open(kTool, true);
  const CallId again = h.Ask(kTool.Again(number), DeleteKey{.key = "k", .only_key = false});
  EXPECT_TRUE(h.Pending(again));
  h.Advance(absl::Seconds(1));
  EXPECT_EQ(h.Brought<KeysDeleted>(again).deleted, 3000);

  // The answer is kept, also by another life of the server.
  h.Ask(kFirst, SetKey{.key = "k/new", .value = "stays"});
  for (const bool from_snapshot : {false, true}) {
    h.Restart(from_snapshot);
    h.Open(kTool, true);
    const CallId kept = h.Ask(kTool.Again(number), DeleteKey{.key = "k", .only_key = false});
    EXPECT_EQ(h.Brought<KeysDeleted>(kept).deleted, 3000);
    EXPECT_EQ(h.Value(h.Ask(kTool, TryGetKey{.key = "k/new"})), "stays");
  }
}

TEST(Sessions, ARetryIsAnsweredAsBeforeWhateverHappenedSince) {
  CoordinatorHarness h({.size = 2});
  h.Open(kTool);
  h.Open(kFirst);
  const CallId set = h.Ask(kTool, SetKey{.key = "a", .value = "1"});
  const uint64_t number = h.LastNumber(kTool);
  h.Ask(kFirst, DeleteKey{.key = "a"});

  const CallId again = h.Ask(kTool.Again(number), SetKey{.key = "a", .value = "1"});

  EXPECT_EQ(h.Reply(set).error, h.Reply(again).error);
  EXPECT_THAT(h.Reply(h.Ask(kTool, TryGetKey{.key = "a"})),
              HasError(StatusCode::kNotFound, Reason::kKeyNotFound));
}

TEST(Sessions, WhatTheClientHasIsNotKeptAndNotDoneAgain) {
  CoordinatorHarness h({.size = 2});
  h.Open(kTool);
  h.Ask(kTool, IncrementKey{.key = "n", .increment = 1});
  const uint64_t number = h.LastNumber(kTool);
  h.AnsweredThrough(kTool, number);

  EXPECT_THAT(
      h.Reply(h.Ask(kTool.Again(number), IncrementKey{.key = "n", .increment = 1})),
      HasError(StatusCode::kInvalidArgument, Reason::kInvalidArgument, "not kept any more"));
  EXPECT_EQ(h.Value(h.Ask(kTool, TryGetKey{.key = "n"})), "1");
  // A wait under an older number is no effect: it parks again.
  EXPECT_TRUE(h.Pending(h.Ask(kTool.Again(number), GetKey{.key = "later"})));
}

TEST(Sessions, TooManyAnswersThatNobodyConfirmsAreRefused) {
  CoordinatorHarness h({.size = 2, .kept_answers_max = 2});
  h.Open(kTool);
  h.Ask(kTool, IncrementKey{.key = "n", .increment = 1});
  h.Ask(kTool, IncrementKey{.key = "n", .increment = 1});

  EXPECT_THAT(h.Reply(h.Ask(kTool, IncrementKey{.key = "n", .increment = 1})),
              HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "kept_answers_max"));
  h.AnsweredThrough(kTool, h.LastNumber(kTool));

  EXPECT_EQ(h.Value(h.Ask(kTool, IncrementKey{.key = "n", .increment = 1})), "3");
}

TEST(Sessions, AWaitGoesOnOverANewLink) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  const CallId waits = h.Ask(kFirst, ArriveAtBarrier{.id = "b"});
  const uint64_t number = h.LastNumber(kFirst);
  h.BreakLink(kFirst);
  h.Advance(absl::Milliseconds(150));
  h.Open(kFirst, true);

  const CallId again = h.Ask(kFirst.Again(number), ArriveAtBarrier{.id = "b"});
  EXPECT_TRUE(h.Pending(again));
  h.Ask(kSecond, ArriveAtBarrier{.id = "b"});

  EXPECT_THAT(h.Reply(again), Succeeded());
  EXPECT_FALSE(h.Pending(waits));
  h.Advance(absl::Seconds(5));
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST(Sessions, AMemberWhoseLinkStaysBrokenIsLost) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  const CallId poll = h.Ask(kSecond, PollForError{});
  h.BreakLink(kFirst);
  EXPECT_EQ(h.Condition(0), MemberCondition::kSuspect);
  h.Advance(absl::Milliseconds(299));
  EXPECT_TRUE(h.Pending(poll));

  h.Advance(absl::Milliseconds(1));

  EXPECT_THAT(h.Reply(poll), HasError(StatusCode::kUnavailable, Reason::kConnectionLost));
  EXPECT_THAT(h.Reply(poll), IsAbout(0));
}

TEST(Sessions, ALinkThatFellSilentIsNoProofOfADeath) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  const CallId poll = h.Ask(kSecond, PollForError{});
  h.BreakLink(kFirst, /*silent=*/true);
  h.Advance(absl::Seconds(50));
  EXPECT_EQ(h.Condition(0), MemberCondition::kSuspect);
  EXPECT_THAT(h.Member(0).why, HasSubstr("nothing came over it"));
  EXPECT_TRUE(h.Pending(poll));
  h.Ask(kSecond, ReportProgress{});

  h.Advance(absl::Seconds(51));

  EXPECT_THAT(h.Reply(poll), HasError(StatusCode::kUnavailable, Reason::kHeartbeatTimeout));
}

TEST(Sessions, APollThatIsCancelledIsNoBrokenConnection) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();

  h.Hangup(h.Ask(kFirst, PollForError{}));
  h.Advance(absl::Seconds(10));

  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST(Sessions, ClosingOneWithoutLeavingLosesTheMember) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  const CallId poll = h.Ask(kSecond, PollForError{});

  EXPECT_THAT(h.Reply(h.Ask(kFirst, CloseSession{})), Succeeded());

  EXPECT_THAT(h.Reply(poll), HasError(StatusCode::kUnavailable, Reason::kConnectionLost,
                                      "closed its session without leaving"));
  EXPECT_EQ(h.Condition(0), MemberCondition::kLost);
}

TEST(Sessions, ClosingOneAfterLeavingHarmsNobody) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::ZeroDuration()});
  h.JoinAll();
  const CallId poll = h.Ask(kSecond, PollForError{});
  h.Ask(kFirst, LeaveJob{});

  h.Ask(kFirst, CloseSession{});
  h.Advance(absl::Seconds(10));

  EXPECT_TRUE(h.Pending(poll));
  EXPECT_EQ(h.Condition(0), MemberCondition::kLeft);
}

TEST(Sessions, AClosedOneThatRegistersIsNotCountedAnyMore) {
  CoordinatorHarness h({.size = 2});
  h.Open(kFirst);
  const CallId joining = h.Join(kFirst, 500, {.index = 0});

  h.Ask(kFirst, CloseSession{});

  EXPECT_THAT(h.Reply(joining), HasError(StatusCode::kUnavailable, Reason::kConnectionLost));
  EXPECT_EQ(h.Condition(0), MemberCondition::kMissing);
}

TEST(Sessions, LeavingThatIsAskedAgainSucceeds) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  const CallId first = h.Ask(kFirst, LeaveJob{});
  const uint64_t number = h.LastNumber(kFirst);
  EXPECT_THAT(h.Reply(h.Ask(kSecond, LeaveJob{})), Succeeded());
  EXPECT_THAT(h.Reply(first), Succeeded());
  h.BreakLink(kFirst);
  h.Open(kFirst, true);

  EXPECT_THAT(h.Reply(h.Ask(kFirst.Again(number), LeaveJob{})), Succeeded());
}

TEST(Sessions, LeavingThatIsAskedAgainSucceedsEvenWhenTheNextAttemptHasBegun) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  h.Ask(kFirst, LeaveJob{});
  const uint64_t number = h.LastNumber(kFirst);
  h.Ask(kSecond, LeaveJob{});
  h.BreakLink(kFirst);
  h.Open(Native(3));
  h.Join(Native(3), 700, {.index = 0});
  EXPECT_EQ(h.View().attempt, 2);
  h.Open(kFirst, true);

  EXPECT_THAT(h.Reply(h.Ask(kFirst.Again(number), LeaveJob{})), Succeeded());
  EXPECT_THAT(h.Reply(h.Ask(kFirst, SetKey{.key = "a"})),
              HasError(StatusCode::kInternal, Reason::kWrongServiceIncarnation,
                       "all its members had left"));
}

TEST(Sessions, AnErrorThatIsReportedAgainIsReportedOnce) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  h.Ask(kSecond, PollForError{});
  h.Ask(kFirst, ReportError{.code = StatusCode::kInternal, .message = "broken"});
  const uint64_t number = h.LastNumber(kFirst);

  EXPECT_THAT(h.Reply(h.Ask(kFirst.Again(number), ReportError{.message = "broken"})), Succeeded());
  EXPECT_EQ(h.View().errors.size(), 1u);
}

TEST(Sessions, OneOfAnOlderAttemptIsToldHowThatEnded) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  h.Ask(kSecond, PollForError{});
  h.Ask(kFirst, ReportError{.code = StatusCode::kInternal, .message = "out of memory"});
  h.Open(Native(3));
  h.Join(Native(3), 700, {.index = 0});

  EXPECT_EQ(h.View().attempt, 2);
  EXPECT_THAT(h.Reply(h.Ask(kSecond, SetKey{.key = "a"})),
              HasError(StatusCode::kInternal, Reason::kWrongServiceIncarnation, "attempt 1",
                       "out of memory", "join again"));
  // Its session lives on, and may join.
  const CallId again = h.Join(kSecond, 701, {.index = 1});
  EXPECT_EQ(h.Brought<Joined>(again).attempt, 2);
  EXPECT_THAT(h.Reply(h.Ask(kSecond, SetKey{.key = "a"})), Succeeded());
}

TEST(Sessions, AFormerLifeWritesNothing) {
  CoordinatorHarness h({.size = 2, .recoverable = true});
  h.JoinAll();
  h.BreakLink(kFirst);
  h.Open(Native(3));
  EXPECT_THAT(h.Reply(h.Join(Native(3), 700, {.index = 0})), Succeeded());
  h.Open(kFirst, true);

  EXPECT_THAT(h.Reply(h.Ask(kFirst, SetKey{.key = "a"})),
              HasError(StatusCode::kAborted, Reason::kMemberRestarted));
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

}  // namespace
}  // namespace lockstep::coord

// The defects of upstream's service that lie in these machines, mended: one test or more for
// each, by its number in docs/conformance.md.
#include <limits>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::FailedBarrier;
using lockstep::testing::HasError;
using lockstep::testing::HasText;
using lockstep::testing::IsAbout;
using lockstep::testing::PassedBarrier;
using lockstep::testing::Succeeded;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Both members of a job of two pass a barrier.
void Pass(CoordinatorHarness& h, const std::string& id, int64_t counter = 0) {
  h.Arrive(0, id, {.counter = counter});
  ASSERT_THAT(h.Reply(h.Arrive(1, id, {.counter = counter})), PassedBarrier(counter));
}

TEST(MendedDefect, Defect01_ACancelWithoutACounterCancelsAnyInstance) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  Pass(h, "b", 0);
  Pass(h, "b", 1);
  const CallId waiting = h.Arrive(0, "b", {.counter = 2});

  EXPECT_THAT(h.Reply(h.Cancel(1, "b")), Succeeded());

  EXPECT_THAT(h.Reply(waiting), AllOf(HasError(StatusCode::kCancelled), FailedBarrier("b", 2)));
}

TEST(MendedDefect, Defect02_IncrementCountsOver64Bits) {
  CoordinatorHarness h({.size = 1});
  h.RegisterAll();
  EXPECT_EQ(h.Value(h.Increment(0, "n", 3'000'000'000)), "3000000000");
  EXPECT_EQ(h.Value(h.Increment(0, "n", 1)), "3000000001");
  h.Set(0, "max", "9223372036854775806");
  EXPECT_EQ(h.Value(h.Increment(0, "max", 1)), "9223372036854775807");
  h.Set(0, "min", "-9223372036854775807");
  EXPECT_EQ(h.Value(h.Increment(0, "min", -1)), "-9223372036854775808");

  EXPECT_THAT(h.Reply(h.Increment(0, "max", 1)),
              HasError(StatusCode::kOutOfRange, Reason::kNumberOverflow));
  EXPECT_THAT(h.Reply(h.Increment(0, "min", std::numeric_limits<int64_t>::min())),
              HasError(StatusCode::kOutOfRange, Reason::kNumberOverflow));
  EXPECT_EQ(h.Value(h.TryGet(0, "max")), "9223372036854775807");
  EXPECT_EQ(h.Value(h.TryGet(0, "min")), "-9223372036854775808");
}

TEST(MendedDefect, Defect03_AStrangerWithoutAListDoesNotCountAsAnArrival) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId call0 = h.Arrive(0, "b");

  for (int stranger : {2, 3, -1}) {
    EXPECT_THAT(h.Reply(h.Arrive(stranger, "b")), HasError(StatusCode::kInvalidArgument));
  }

  EXPECT_TRUE(h.Pending(call0)) << "it neither passes early nor fails by a stranger's doing";
  EXPECT_THAT(h.Reply(h.Arrive(1, "b")), PassedBarrier(0));
}

TEST(MendedDefect, Defect04_AWrongCallDoesNotSpoilAPassedInstance) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  h.Arrive(0, "b", {.members = {0, 1}});
  h.Arrive(1, "b", {.members = {0, 1}});

  EXPECT_THAT(h.Reply(h.Arrive(0, "b", {.counter = 7, .members = {0, 1}})),
              HasError(StatusCode::kInternal, Reason::kBarrierCounterMismatch));
  EXPECT_THAT(h.Reply(h.Arrive(0, "b", {.members = {0, 2}})),
              HasError(StatusCode::kInvalidArgument));
  EXPECT_THAT(h.Reply(h.Arrive(2, "b", {.members = {0, 1}})),
              HasError(StatusCode::kInvalidArgument));

  EXPECT_THAT(h.Reply(h.Arrive(0, "b", {.members = {0, 1}})), PassedBarrier(0));
  const CallId next = h.Arrive(0, "b", {.counter = 1, .members = {0, 1}});
  EXPECT_THAT(h.Reply(h.Arrive(1, "b", {.counter = 1, .members = {0, 1}})), PassedBarrier(1));
  EXPECT_THAT(h.Reply(next), PassedBarrier(1));
}

TEST(MendedDefect, Defect05_CancellingAnUnseenIdLeavesNothingBehind) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();

  EXPECT_THAT(h.Reply(h.Cancel(0, "b")), Succeeded());
  EXPECT_THAT(h.Reply(h.Cancel(0, "b", 0)), Succeeded());

  Pass(h, "b", 0);
}

TEST(MendedDefect, Defect05_AFirstCallWithALaterCounterDoesNoDamage) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();

  const CallId early = h.Arrive(0, "b", {.counter = 3});

  EXPECT_THAT(h.Reply(early), HasError(StatusCode::kInternal, Reason::kBarrierCounterMismatch));
  EXPECT_EQ(h.Reply(early).error->barrier->id, "b") << "not an empty name";
  Pass(h, "b", 0);
}

TEST(MendedDefect, Defect05_AMemberNamedTwiceIsNamedOnce) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  const CallId call0 = h.Arrive(0, "b", {.members = {0, 1, 1, 0}});
  EXPECT_TRUE(h.Pending(call0));

  EXPECT_THAT(h.Reply(h.Arrive(1, "b", {.members = {1, 0}})), PassedBarrier(0));
  EXPECT_THAT(h.Reply(call0), PassedBarrier(0));
}

TEST(MendedDefect, Defect06_AWatchAboveTheCurrentVersionIsAnsweredAtOnce) {
  CoordinatorHarness h({.size = 1});
  h.RegisterAll();
  const int64_t version = h.Watched(h.Watch(0)).version;

  for (int64_t above : {version + 1, version + 1000, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(h.Watched(h.Watch(0, above)).version, version);
  }
  EXPECT_EQ(h.Watched(h.Watch(0, std::numeric_limits<int64_t>::min())).version, version);
}

TEST(MendedDefect, Defect07_AbandonedCallsAreReleased) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Advance(absl::Seconds(1));
  const std::vector<CallId> parked = {h.Get(0, "k"), h.Arrive(0, "b"), h.Alive(0, {0, 1}),
                                      h.Watch(0, h.Watched(h.Watch(0)).version), h.Leave(0)};
  for (CallId call : parked) ASSERT_TRUE(h.Pending(call));
  EXPECT_GE(h.View().waits, 4u);

  for (CallId call : parked) h.Hangup(call);

  EXPECT_EQ(h.View().waits, 0u);
  EXPECT_TRUE(h.View().barriers.empty());
  EXPECT_TRUE(h.View().key_waits.empty());
  h.Set(0, "k", "v");
  h.Reset(1);
}

TEST(MendedDefect, Defect08_KeysHaveLimitsThatTheAnswerNames) {
  CoordinatorHarness h({.size = 1,
                        .keys_max = 2,
                        .key_bytes_max = 10,
                        .value_bytes_max = 20,
                        .store_bytes_max = 40});
  h.RegisterAll();
  h.Set(0, "a", "1");
  EXPECT_THAT(h.Reply(h.Set(0, std::string(11, 'k'), "v")),
              HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "key_bytes_max"));
  EXPECT_THAT(h.Reply(h.Set(0, "b", std::string(21, 'v'))),
              HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "value_bytes_max"));
  EXPECT_THAT(h.Reply(h.Set(0, "b", std::string(20, 'v'))), Succeeded());
  EXPECT_THAT(h.Reply(h.Set(0, "c", "1")),
              HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "keys_max"));
  EXPECT_THAT(h.Reply(h.Increment(0, "d", 1)),
              HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "keys_max"));
  EXPECT_THAT(h.Reply(h.Set(0, "a", std::string(19, 'v'), true)),
              HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "store_bytes_max"));

  EXPECT_EQ(h.Value(h.TryGet(0, "a")), "1") << "a refused write changes nothing";
  EXPECT_EQ(h.View().keys, 2u);
  h.Delete(0, "b");
  EXPECT_THAT(h.Reply(h.Set(0, "c", "1")), Succeeded());
}

TEST(MendedDefect, Defect08_OpenBarriersHaveALimitThatTheAnswerNames) {
  CoordinatorHarness h({.size = 2, .open_barriers_max = 2, .barrier_id_bytes_max = 8});
  h.RegisterAll();
  const CallId open = h.Arrive(0, "a");
  h.Arrive(0, "b");

  EXPECT_THAT(h.Reply(h.Arrive(0, "c")), HasError(StatusCode::kResourceExhausted,
                                                  Reason::kLimitExceeded, "open_barriers_max"));
  EXPECT_THAT(
      h.Reply(h.Arrive(0, "a-long-id")),
      HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "barrier_id_bytes_max"));

  EXPECT_THAT(h.Reply(h.Arrive(1, "a")), PassedBarrier(0));
  EXPECT_THAT(h.Reply(open), PassedBarrier(0));
  EXPECT_TRUE(h.Pending(h.Arrive(0, "c"))) << "there is room again";
}

TEST(MendedDefect, Defect08_PastBarriersAreForgottenOldestFirst) {
  CoordinatorHarness h({.size = 2, .kept_barriers_max = 3});
  h.RegisterAll();
  for (int i = 0; i < 5; ++i) Pass(h, absl::StrCat("b", i));

  EXPECT_THAT(h.Reply(h.Arrive(0, "b4")), PassedBarrier(0)) << "remembered";
  EXPECT_TRUE(h.Pending(h.Arrive(0, "b0"))) << "forgotten, so it is a new instance";
}

TEST(MendedDefect, Defect08_WaitsHaveALimitThatTheAnswerNames) {
  CoordinatorHarness h({.size = 1, .waits_max = 3});
  h.RegisterAll();
  std::vector<CallId> waits;
  for (int i = 0; i < 3; ++i) waits.push_back(h.Get(0, absl::StrCat("k", i)));

  EXPECT_THAT(h.Reply(h.Get(0, "k3")),
              HasError(StatusCode::kResourceExhausted, Reason::kLimitExceeded, "waits_max"));

  h.Hangup(waits[0]);
  EXPECT_TRUE(h.Pending(h.Get(0, "k3")));
}

TEST(MendedDefect, Defect08_ErrorsForPeopleAreForgottenOldestFirst) {
  CoordinatorHarness h({.size = 1, .kept_errors_max = 2});
  for (int i = 0; i < 4; ++i) {
    h.RegisterAll(static_cast<uint64_t>(100 + i));
    h.Report(0, StatusCode::kInternal, absl::StrCat("mishap ", i));
  }

  const std::vector<ErrorView> errors = h.View().errors;

  ASSERT_EQ(errors.size(), 2u);
  EXPECT_THAT(errors[0].message, HasSubstr("mishap 2"));
  EXPECT_THAT(errors[1].message, HasSubstr("mishap 3"));
}

TEST(MendedDefect, Defect09_TheRootCauseIsToldAndLaterErrorsAreKeptAsConsequences) {
  CoordinatorHarness h({.size = 4});
  h.RegisterAll();
  const std::vector<CallId> polls = h.PollAll();
  h.Report(1, StatusCode::kDataLoss, "the disk is full");
  h.Report(2, StatusCode::kInternal, "peer task/1 went away");

  const CallId late = h.Poll(3);

  EXPECT_THAT(h.Reply(polls[0]), AllOf(HasError(StatusCode::kDataLoss), IsAbout(1)));
  EXPECT_THAT(h.Reply(late), AllOf(HasError(StatusCode::kDataLoss), IsAbout(1)));
  const std::vector<ErrorView> errors = h.View().errors;
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_FALSE(errors[0].consequence);
  EXPECT_TRUE(errors[1].consequence);
  EXPECT_THAT(errors[1].message, HasSubstr("peer task/1 went away"));
}

TEST(MendedDefect, Defect11_AMemberIsLostAtTheHeartbeatTimeOutSharp) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.KeepAlive({0});
  h.Advance(absl::Milliseconds(12345));
  h.Heartbeat(1);

  h.Advance(absl::Seconds(100) - absl::Nanoseconds(1));
  EXPECT_NE(h.Condition(1), MemberCondition::kLost);
  h.Advance(absl::Nanoseconds(1));

  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
  EXPECT_EQ(h.Member(1).since, Time() + absl::Milliseconds(112345));
}

TEST(MendedDefect, Defect11_ABarrierTimesOutSharp) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Advance(absl::Milliseconds(333));
  const CallId call = h.Arrive(0, "b", {.timeout = absl::Milliseconds(1)});

  h.Advance(absl::Nanoseconds(999'999));
  EXPECT_TRUE(h.Pending(call));
  h.Advance(absl::Nanoseconds(1));

  EXPECT_THAT(h.Reply(call), HasError(StatusCode::kDeadlineExceeded));
}

TEST(MendedDefect, Defect11_ABarrierWithoutTimeLeftFailsAtOnceOrAtItsDeadline) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId none = h.Arrive(0, "none", {.timeout = absl::ZeroDuration()});
  const CallId negative = h.Arrive(0, "negative", {.timeout = absl::Seconds(-5)});

  h.Advance(absl::ZeroDuration());

  EXPECT_THAT(h.Reply(none), HasError(StatusCode::kDeadlineExceeded));
  EXPECT_THAT(h.Reply(negative), HasError(StatusCode::kDeadlineExceeded));
}

TEST(MendedDefect, Defect13_MembersAreNamedThreeAndThenCounted) {
  CoordinatorHarness h({.role = "trainer", .size = 16});
  h.RegisterAll();
  const CallId call = h.Arrive(5, "b", {.timeout = absl::Seconds(1)});

  h.Advance(absl::Seconds(1));

  EXPECT_THAT(h.Reply(call), HasText("1/16", "trainer/5", "trainer/0", "+"));
  EXPECT_THAT(h.Reply(call), HasText("more"));
  EXPECT_THAT(h.Reply(call), ::testing::Not(HasText("trainer/7")));
}

TEST(MendedDefect, Defect13_LivesAreNumberedNotPrintedAsRandomNumbers) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll(0x1234'5678'9abc'def0);
  h.Reset(1);
  h.Register(1, 0xfeed'feed'feed'feed);

  EXPECT_EQ(h.Member(0).name, "task/0#1");
  EXPECT_EQ(h.Member(1).name, "task/1#2");
}

TEST(MendedDefect, Defect13_ALongReportIsCutToTheLimit) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId poll = h.Poll(0);

  h.Report(1, StatusCode::kInternal, std::string(100'000, 'x'));

  EXPECT_LE(h.Reply(poll).error->message.size(), kErrorTextBytesMax);
  EXPECT_THAT(h.Reply(poll), HasText("task/1")) << "the name is not what is cut off";
}

TEST(MendedDefect, Defect13_ALongReportIsCutBetweenCharacters) {
  CoordinatorHarness h({.size = 1});
  std::string umlauts = "x";
  for (int i = 0; i < 5000; ++i) umlauts += "\u00fc";
  for (const std::string& text : {umlauts, umlauts.substr(1)}) {
    h.RegisterAll(text.size());
    h.Report(0, StatusCode::kInternal, text);
    const std::string kept = h.View().errors.back().message;
    const size_t end = kept.find("... [truncated]");
    ASSERT_NE(end, std::string::npos);
    EXPECT_EQ(kept.substr(end - 2, 2), "\u00fc");
  }
}

TEST(MendedDefect, Defect15_DeadlinesFollowTheClockThatIsGivenWhateverItsOrigin) {
  const Time late = Time() + absl::Hours(24 * 365 * 30);
  CoordinatorHarness h({.size = 2}, late);
  h.RegisterAll();
  const CallId call = h.Arrive(0, "b", {.timeout = absl::Seconds(5)});

  h.Advance(absl::Seconds(5));

  EXPECT_THAT(h.Reply(call), HasError(StatusCode::kDeadlineExceeded));
  EXPECT_EQ(h.View().started, late);
  h.Advance(absl::Seconds(95));
  EXPECT_EQ(h.Condition(1), MemberCondition::kLost);
}

TEST(MendedDefect, Defect15_ADeadlineThatNeverComesOverflowsNothing) {
  CoordinatorHarness h({.size = 2, .heartbeat_timeout = absl::InfiniteDuration()});
  h.RegisterAll();
  const CallId call = h.Arrive(0, "b", {.timeout = absl::InfiniteDuration()});
  const CallId longest =
      h.Arrive(0, "c", {.timeout = absl::Milliseconds(std::numeric_limits<int64_t>::max())});

  h.Advance(absl::Hours(24 * 365));

  EXPECT_TRUE(h.Pending(call));
  EXPECT_TRUE(h.Pending(longest));
}

TEST(MendedDefect, Defect16_WatchersShareOneListAndAreAnsweredAtMostEveryInterval) {
  CoordinatorHarness h({.size = 8, .recoverable = true});
  h.RegisterAll();
  h.Advance(absl::Seconds(1));
  const int64_t version = h.Watched(h.Watch(0)).version;
  const CallId a = h.Watch(0, version);
  const CallId b = h.Watch(1, version);

  h.Reset(7);
  EXPECT_EQ(h.Watched(a).members, h.Watched(b).members) << "the first after a rest, at once";
  const CallId next = h.Watch(0, h.Watched(a).version);
  h.Reset(6);
  h.Advance(absl::Milliseconds(40));
  h.Reset(5);
  EXPECT_TRUE(h.Pending(next)) << "the interval has not passed";
  h.Advance(absl::Milliseconds(59));
  EXPECT_TRUE(h.Pending(next));
  h.Advance(absl::Milliseconds(1));

  const MembersWatched watched = h.Watched(next);
  EXPECT_EQ((*watched.members)[6].state, MemberState::kDisconnected);
  EXPECT_EQ((*watched.members)[5].state, MemberState::kDisconnected);
}

TEST(MendedDefect, Defect17_AFailedRegistrationIsNotTheEnd) {
  CoordinatorHarness h({.size = 2, .register_timeout = absl::Seconds(10)});
  const CallId alone = h.Register(0, 100);
  h.Advance(absl::Seconds(10));
  EXPECT_THAT(h.Reply(alone), HasError(StatusCode::kDeadlineExceeded));

  h.RegisterAll(200);

  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
}

TEST(MendedDefect, Defect17_AFailedRegistrationIsNotTheEndOfARecoverableJobEither) {
  CoordinatorHarness h({.size = 2, .register_timeout = absl::Seconds(10), .recoverable = true});
  const CallId alone = h.Register(0, 100);
  h.Advance(absl::Seconds(10));
  EXPECT_THAT(h.Reply(alone), HasError(StatusCode::kDeadlineExceeded));

  h.RegisterAll(200);

  EXPECT_EQ(h.View().attempt, 2);
}

TEST(MendedDefect, Defect17_AFailedShutdownIsNotTheEnd) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::Seconds(10)});
  h.RegisterAll();
  const CallId leave = h.Leave(0);
  h.Advance(absl::Seconds(10));
  EXPECT_THAT(h.Reply(leave), HasError(StatusCode::kInternal));

  h.RegisterAll(200);

  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
}

TEST(MendedDefect, Defect19_TheViewTellsWhoIsInWhoIsMissingAndWhatIsWaitedFor) {
  CoordinatorHarness h({.job = "digits", .size = 3});
  h.Advance(absl::Seconds(2));
  h.Register(0, 100);
  h.Advance(absl::Seconds(3));
  h.Register(2, 102);

  const CoordinatorView starting = h.View();
  EXPECT_EQ(starting.job, "digits");
  EXPECT_EQ(starting.size, 3);
  EXPECT_EQ(starting.state, AttemptState::kWaiting);
  EXPECT_EQ(starting.started, Time() + absl::Seconds(2));
  ASSERT_EQ(starting.members.size(), 3u);
  EXPECT_EQ(starting.members[0].condition, MemberCondition::kRegistering);
  EXPECT_EQ(starting.members[1].condition, MemberCondition::kMissing);
  EXPECT_EQ(starting.members[1].name, "task/1");
  EXPECT_FALSE(starting.members[1].last_heard.has_value());
  EXPECT_EQ(starting.members[2].last_heard, Time() + absl::Seconds(5));
  EXPECT_EQ(starting.waits, 2u);

  h.Register(1, 101);
  h.Advance(absl::Seconds(1));
  h.Heartbeat(1);
  const CoordinatorView running = h.View();
  EXPECT_EQ(running.state, AttemptState::kRunning);
  EXPECT_EQ(running.waits, 0u);
  EXPECT_EQ(running.members[1].last_heard, h.now());
}

TEST(MendedDefect, Defect21_LeavingWithoutHavingRegisteredIsRefused) {
  CoordinatorHarness h({.size = 2});
  const CallId leave = h.Leave(0);
  EXPECT_THAT(h.Reply(leave), HasError(StatusCode::kFailedPrecondition, Reason::kNotRegistered));
  h.RegisterAll();
  h.Reset(0);

  EXPECT_THAT(h.Reply(h.Leave(0)), HasError(StatusCode::kFailedPrecondition));

  h.KeepAlive({1});
  h.Advance(absl::Minutes(6));
  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected) << "no shutdown barrier timed out";
}

}  // namespace
}  // namespace lockstep::coord

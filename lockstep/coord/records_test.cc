// What a coordinator remembers beyond its own death.
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/limits.h"
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

// Each test with all records, and with those of a snapshot.
class RecordsTest : public ::testing::TestWithParam<bool> {
 protected:
  static bool FromSnapshot() { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(From, RecordsTest, ::testing::Bool(),
                         [](const auto& from) { return from.param ? "Snapshot" : "AllRecords"; });

TEST_P(RecordsTest, MembersGoOnWhereTheyWere) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  const ServiceIncarnation service = h.service();
  const Joined joined = h.Brought<Joined>(h.Join(kFirst, 501, {.index = 0}));
  h.Restart(FromSnapshot());

  EXPECT_EQ(h.service(), service);
  EXPECT_EQ(h.Condition(0), MemberCondition::kSuspect);
  EXPECT_THAT(h.Member(0).why, HasSubstr("server was restarted"));
  EXPECT_FALSE(h.Member(0).last_heard) << "by this server, never";
  EXPECT_TRUE(h.Brought<SessionOpened>(h.Open(kFirst, true)).resumed);
  h.Open(kSecond, true);
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
  EXPECT_EQ(h.Brought<Joined>(h.Join(kFirst, 501, {.index = 0})).name, joined.name);
  const CallId waits = h.Ask(kFirst, ArriveAtBarrier{.id = "b"});
  EXPECT_THAT(h.Reply(h.Ask(kSecond, ArriveAtBarrier{.id = "b"})), Succeeded());
  EXPECT_THAT(h.Reply(waits), Succeeded());
  h.Advance(absl::Seconds(59));
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST_P(RecordsTest, AMemberThatDoesNotComeBackIsLostAfterTheGrace) {
  CoordinatorHarness h({.size = 2, .restart_grace = absl::Seconds(20)});
  h.JoinAll();
  h.Restart(FromSnapshot());
  h.Open(kSecond, true);
  const CallId poll = h.Ask(kSecond, PollForError{});
  h.Advance(absl::Seconds(19));
  EXPECT_TRUE(h.Pending(poll));

  h.Advance(absl::Seconds(1));

  EXPECT_THAT(h.Reply(poll), HasError(StatusCode::kUnavailable, Reason::kConnectionLost,
                                      "the server was restarted 20s ago"));
  EXPECT_THAT(h.Reply(poll), IsAbout(0));
}

TEST_P(RecordsTest, WhoHasNotComeBackYetIsNotDraggedIntoTheFailureOfAnother) {
  CoordinatorHarness h({.size = 3});
  h.JoinAll();
  h.Restart(FromSnapshot());
  h.Open(kFirst, true);
  h.Ask(kFirst, PollForError{});

  h.Ask(kFirst, ReportError{.code = StatusCode::kInternal, .message = "broken"});

  EXPECT_EQ(h.Condition(1), MemberCondition::kSuspect);
  ASSERT_EQ(h.View().errors.size(), 1u);
  EXPECT_EQ(h.View().errors[0].origin, "task/0#1");
}

TEST_P(RecordsTest, ANewLifeOfOneThatHasNotComeBackEndsTheAttempt) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  h.Restart(FromSnapshot());
  h.Open(kSecond, true);
  const CallId poll = h.Ask(kSecond, PollForError{});
  h.Open(Native(3));

  h.Join(Native(3), 700, {.index = 0});

  EXPECT_THAT(h.Reply(poll), HasError(StatusCode::kUnavailable, Reason::kConnectionLost));
  EXPECT_EQ(h.View().attempt, 2);
  EXPECT_EQ(h.Member(0).name, "task/0#2");
}

TEST_P(RecordsTest, KeptAnswersAreGivenAgain) {
  CoordinatorHarness h({.size = 2});
  h.Open(kFirst);
  h.Ask(kFirst, IncrementKey{.key = "n", .increment = 4});
  const uint64_t confirmed = h.LastNumber(kFirst);
  h.AnsweredThrough(kFirst, confirmed);
  const KeyRead before =
      h.Brought<KeyRead>(h.Ask(kFirst, IncrementKey{.key = "n", .increment = 5}));
  const uint64_t number = h.LastNumber(kFirst);
  h.Restart(FromSnapshot());
  h.Open(kFirst, true);

  const KeyRead again =
      h.Brought<KeyRead>(h.Ask(kFirst.Again(number), IncrementKey{.key = "n", .increment = 5}));

  EXPECT_EQ(*again.entry.value, "9");
  EXPECT_EQ(again.entry.revision, before.entry.revision);
  EXPECT_THAT(h.Reply(h.Ask(kFirst.Again(confirmed), IncrementKey{.key = "n"})),
              HasError(StatusCode::kInvalidArgument, Reason::kInvalidArgument));
}

TEST_P(RecordsTest, AFailedAttemptStaysFailedWithItsRootCause) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  const CallId poll = h.Ask(kSecond, PollForError{});
  h.Ask(kFirst, ReportError{.code = StatusCode::kInternal, .message = "broken"});
  const std::string told = h.Reply(poll).error->message;
  h.Restart(FromSnapshot());
  h.Open(kSecond, true);

  EXPECT_EQ(h.View().state, AttemptState::kFailed);
  EXPECT_THAT(h.Reply(h.Ask(kSecond, PollForError{})),
              HasError(StatusCode::kInternal, Reason::kReportedError, told));
  EXPECT_EQ(h.Condition(0), MemberCondition::kFailed);
  ASSERT_EQ(h.View().errors.size(), 1u);
  EXPECT_THAT(h.View().errors[0].message, HasSubstr("broken"));
}

TEST_P(RecordsTest, LivesAreCountedOn) {
  CoordinatorHarness h({.size = 1, .recoverable = true});
  for (uint64_t life = 1; life <= 20; ++life) {
    h.Open(Native(life));
    h.Join(Native(life), 600 + life, {.index = 0});
    h.BreakLink(Native(life));
    h.Advance(absl::Seconds(2));
  }
  const std::string last = h.Member(0).name;
  h.Restart(FromSnapshot());

  EXPECT_EQ(h.Member(0).name, last);
  h.Open(Native(50));
  // A life of before does not come back.
  EXPECT_THAT(h.Reply(h.Join(Native(50), 615, {.index = 0})),
              HasError(StatusCode::kAlreadyExists, Reason::kSuperseded));
  h.Join(Native(50), 800, {.index = 0});
  EXPECT_EQ(h.Member(0).name, "task/0#21");
}

TEST_P(RecordsTest, ASessionOfAFormerLifeStillWritesNothing) {
  CoordinatorHarness h({.size = 2, .recoverable = true});
  h.JoinAll();
  h.BreakLink(kFirst);
  h.Open(Native(3));
  h.Join(Native(3), 700, {.index = 0});
  h.Restart(FromSnapshot());
  h.Open(kFirst, true);
  h.Open(Native(3), true);

  EXPECT_THAT(h.Reply(h.Ask(kFirst, SetKey{.key = "a"})),
              HasError(StatusCode::kAborted, Reason::kMemberRestarted));
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST_P(RecordsTest, ASessionThatGaveItsMemberToAnotherHarmsItNot) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  h.Open(Native(3));
  EXPECT_THAT(h.Reply(h.Join(Native(3), 501, {.index = 0})), Succeeded());
  h.Restart(FromSnapshot());
  h.Open(Native(3), true);
  h.Open(kSecond, true);
  h.Open(kFirst, true);
  h.BreakLink(kFirst);
  h.Advance(absl::Seconds(40));

  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST_P(RecordsTest, ASessionOfAnOlderAttemptIsStillTold) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  h.Ask(kSecond, PollForError{});
  h.Ask(kFirst, ReportError{.code = StatusCode::kInternal, .message = "out of memory"});
  h.Open(Native(3));
  h.Join(Native(3), 700, {.index = 0});
  h.Restart(FromSnapshot());
  h.Open(kSecond, true);

  EXPECT_EQ(h.View().attempt, 2);
  EXPECT_THAT(h.Reply(h.Ask(kSecond, SetKey{.key = "a"})),
              HasError(StatusCode::kInternal, Reason::kWrongServiceIncarnation, "out of memory",
                       "join again"));
}

TEST_P(RecordsTest, RolesAndProcessesAreRemembered) {
  CoordinatorHarness h({.size = 2});
  h.ProcessStarted(1, 4711);
  h.Open(kFirst);
  h.Join(kFirst, 501,
         {.index = 0, .role = "trainer", .host = "gpu-3", .pid = 17, .labels = {{"zone", "b"}}});
  h.Register(1, 100);
  h.ProcessStopped(1, 4711);
  h.Restart(FromSnapshot());

  EXPECT_EQ(h.Member(0).name, "trainer/0#1");
  EXPECT_EQ(h.Member(0).host, "gpu-3");
  EXPECT_EQ(h.Member(0).pid, 17);
  EXPECT_EQ(h.Member(0).labels.size(), 1u);
  EXPECT_TRUE(h.Member(0).native);
  EXPECT_EQ(h.Member(1).pid, 4711);
  EXPECT_THAT(h.Member(1).why, HasSubstr("SIGSTOP"));
}

TEST_P(RecordsTest, WhomARunLeavesOutIsRememberedUntilALargerOneBegins) {
  CoordinatorHarness h({.size = 3});
  for (int member = 0; member < 3; ++member) h.ProcessStarted(member, 51 + member);
  h.ProcessEnded(2, 53, /*exit_code=*/0, /*signal=*/15);
  h.Handle(RunBegan{.size = 2});
  h.ProcessEnded(2, 53, 0, 15);  // told late
  h.Restart(FromSnapshot());

  EXPECT_EQ(h.Member(1).process, ProcessState::kRunning);
  EXPECT_EQ(h.Member(2).process, ProcessState::kLeftOut);
  EXPECT_EQ(h.Member(2).pid, 0);
  EXPECT_THAT(h.Member(2).why, HasSubstr("the run has been without it"));

  h.Handle(RunBegan{.size = 3});
  h.Restart(FromSnapshot());
  EXPECT_EQ(h.Member(1).process, ProcessState::kRunning);
  EXPECT_EQ(h.Member(2).process, ProcessState::kUnknown);
  h.ProcessStarted(2, 54);
  EXPECT_EQ(h.Member(2).process, ProcessState::kRunning);
}

TEST_P(RecordsTest, AStockMemberThatIsHeardAgainIsBack) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Restart(FromSnapshot());
  EXPECT_EQ(h.Condition(0), MemberCondition::kSuspect);

  EXPECT_THAT(h.Reply(h.Heartbeat(0)), Succeeded());

  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST_P(RecordsTest, WhoLeftHasLeft) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  h.Ask(kFirst, LeaveJob{});
  const uint64_t number = h.LastNumber(kFirst);
  h.Ask(kSecond, LeaveJob{});
  h.Restart(FromSnapshot());
  h.Open(kFirst, true);

  EXPECT_EQ(h.View().state, AttemptState::kEnded);
  EXPECT_EQ(h.Condition(0), MemberCondition::kLeft);
  EXPECT_THAT(h.Reply(h.Ask(kFirst.Again(number), LeaveJob{})), Succeeded());
  EXPECT_EQ(h.Brought<Joined>([&] {
               h.Open(kSecond, true);
               const CallId first = h.Join(kFirst, 501, {.index = 0});
               h.Join(kSecond, 502, {.index = 1});
               return first;
             }())
                .attempt,
            2);
}

TEST_P(RecordsTest, RegistrationsThatWaitedAskAgain) {
  CoordinatorHarness h({.size = 2});
  h.Open(kFirst);
  h.Join(kFirst, 501, {.index = 0});
  const uint64_t number = h.LastNumber(kFirst);
  h.Restart(FromSnapshot());
  EXPECT_EQ(h.View().state, AttemptState::kWaiting);
  h.Open(kFirst, true);
  const CallId again = h.Join(kFirst.Again(number), 501, {.index = 0});
  EXPECT_TRUE(h.Pending(again));
  EXPECT_EQ(h.Member(0).name, "task/0#1");

  h.Open(kSecond);
  h.Join(kSecond, 502, {.index = 1});

  EXPECT_EQ(h.Brought<Joined>(again).attempt, 1);
}

// What a clock that was set while the server was away makes of the times in the records: all lie in
// the past, however far.
class RestoredAfterAJump : public ::testing::TestWithParam<absl::Duration> {
 protected:
  RestoredAfterAJump() {
    const Time at = now_ - GetParam();
    const auto lease = std::make_shared<const std::string>("held");
    for (const Record& each : std::initializer_list<Record>{
             record::AttemptBegan{1, ServiceIncarnation(7)},
             record::SessionChanged{.session = kFirst.session, .open = true},
             record::MemberChanged{.member = MemberIndex(0),
             .state = MemberState::kConnected,
             .incarnation = Incarnation(500),
             .life = 1,
             .session = kFirst.session},
             record::AttemptRuns{},
             record::KeySet{.key = "lease", .value = lease, .revision = 2, .ttl = absl::Minutes(1)},
             record::KeySet{.key = "stays", .value = lease, .revision = 3}}) {
      EXPECT_TRUE(c_.Apply(at, each).ok());
    }
    c_.Handle(now_, Restored{});
  }

  size_t Keys(Time now) {
    c_.Handle(now, DeadlineReached{});
    return c_.View(now).keys;
  }

  const Time now_ = Time() + absl::Seconds(5);  // the host was started a moment ago
  Coordinator c_{{.size = 1}};
};
INSTANTIATE_TEST_SUITE_P(Ago, RestoredAfterAJump,
                         ::testing::Values(absl::ZeroDuration(), absl::Seconds(50),
                                           absl::Hours(24 * 365 * 56),
                                           absl::Hours(24 * 365 * 5000)));

TEST_P(RestoredAfterAJump, MembersHaveTheirGraceFromTheRestartOn) {
  EXPECT_EQ(c_.View(now_).members[0].condition, MemberCondition::kSuspect);
  c_.Handle(now_ + absl::Seconds(29), DeadlineReached{});
  EXPECT_EQ(c_.View(now_ + absl::Seconds(29)).members[0].condition, MemberCondition::kSuspect);
  c_.Handle(now_ + absl::Seconds(30), DeadlineReached{});
  EXPECT_EQ(c_.View(now_ + absl::Seconds(30)).members[0].condition, MemberCondition::kLost);
}

TEST_P(RestoredAfterAJump, ALeaseLastsAsLongAsTheClocksSayAndNeverLongerThanAnew) {
  const absl::Duration left = std::max(absl::Minutes(1) - GetParam(), absl::ZeroDuration());
  if (left > absl::ZeroDuration()) {
    EXPECT_EQ(Keys(now_ + left - absl::Milliseconds(1)), 2u);
  }
  EXPECT_EQ(Keys(now_ + left), 1u) << "what has no lease stays";
}

TEST(Records, Finding02_AnAttemptThatNoneCanFollowIsRefused) {
  Coordinator c({.size = 2});
  EXPECT_EQ(c.Apply(Time(), record::AttemptBegan{INT64_MAX, ServiceIncarnation(7)}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(c.Apply(Time(), record::AttemptBegan{-1, ServiceIncarnation(7)}).code(),
            StatusCode::kInvalidArgument);
  ASSERT_TRUE(c.Apply(Time(), record::AttemptBegan{kAttemptMax, ServiceIncarnation(7)}).ok());
  c.Handle(Time(), Restored{});
  c.Handle(Time(), RegisterMember{
                       .call = CallId(1), .member = MemberIndex(0), .incarnation = Incarnation(5)});
  EXPECT_EQ(c.View(Time()).attempt, kAttemptMax);
}

TEST(Records, OutOfPlaceAreRefused) {
  Coordinator c({.size = 2});
  EXPECT_EQ(c.Apply(Time(), record::AttemptRuns{}).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(c.Apply(Time(), record::AttemptBegan{1, ServiceIncarnation(7)}).ok());
  EXPECT_EQ(c.Apply(Time(), record::AttemptBegan{1, ServiceIncarnation(8)}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(c.Apply(Time(), record::MemberChanged{.member = MemberIndex(2)}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(c.Apply(Time(), record::ProcessChanged{.member = MemberIndex(-1)}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(c.Apply(Time(), record::AnswerKept{.session = {1, 2}}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(Coordinator({.size = 1}).Snapshot().empty());
}

TEST_P(RecordsTest, UseA01_TheNewestRunIsStillTheNewestAfterARestart) {
  CoordinatorHarness h({.size = 2});
  h.JoinAll();
  h.Ask(kFirst, ReportError{.code = StatusCode::kInternal, .message = "broken"});
  ASSERT_EQ(h.NewestRun().state, AttemptState::kFailed);
  for (int member = 0; member < 2; ++member) h.ProcessStarted(member, 60 + member);
  h.ProcessEnded(1, 61, 1, 0);

  h.Restart(FromSnapshot());

  EXPECT_EQ(h.NewestRun().state, AttemptState::kWaiting);
  EXPECT_EQ(h.NewestRun().attempt, 2);
  EXPECT_EQ(h.NewestRun().members[0].process, ProcessState::kRunning);
  EXPECT_EQ(h.NewestRun().members[1].process, ProcessState::kFailed);
}

}  // namespace
}  // namespace lockstep::coord

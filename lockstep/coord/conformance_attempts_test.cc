// Attempts: how the next life of a job opens, and that nothing of the old one touches it.
// Upstream has nothing like it: its service dies with process 0.
#include <set>

#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::HasError;
using lockstep::testing::IsFromAnotherAttempt;
using lockstep::testing::PassedBarrier;
using lockstep::testing::Succeeded;
using lockstep::testing::Who;
using ::testing::IsEmpty;

// Both members of a job of two leave it.
void LeaveAll(CoordinatorHarness& h) {
  h.Leave(0);
  ASSERT_THAT(h.Reply(h.Leave(1)), Succeeded());
}

TEST(Attempts, TheFirstWaitsForItsMembers) {
  CoordinatorHarness h({.size = 2});
  EXPECT_EQ(h.View().attempt, 1);
  EXPECT_EQ(h.View().state, AttemptState::kWaiting);
  EXPECT_NE(h.service(), ServiceIncarnation());

  h.Advance(absl::Seconds(3));
  h.RegisterAll();

  EXPECT_EQ(h.View().attempt, 1);
  EXPECT_EQ(h.View().state, AttemptState::kRunning);
  EXPECT_EQ(h.View().started, Time() + absl::Seconds(3));
}

TEST(Attempts, ARegistrationAfterTheLastMemberLeftOpensTheNext) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const ServiceIncarnation first = h.service();
  LeaveAll(h);
  EXPECT_EQ(h.service(), first) << "it is there to be asked until the next opens";

  const CallId call0 = h.Register(0, 200);

  EXPECT_NE(h.service(), first);
  EXPECT_EQ(h.View().attempt, 2);
  EXPECT_EQ(h.View().state, AttemptState::kWaiting);
  EXPECT_TRUE(h.Pending(call0)) << "the new attempt needs all its members, too";
  const CallId call1 = h.Register(1, 201);
  EXPECT_EQ(std::get<Registered>(h.Reply(call0).answer).service, h.service());
  EXPECT_EQ(std::get<Registered>(h.Reply(call1).answer).service, h.service());
}

TEST(Attempts, ItMayBeTheSameIncarnationWhenAllHadLeft) {
  CoordinatorHarness h({.size = 1});
  h.RegisterAll();
  const ServiceIncarnation first = h.service();
  h.Leave(0);

  EXPECT_THAT(h.Reply(h.Register(0, 100)), Succeeded());
  EXPECT_NE(h.service(), first);
}

TEST(Attempts, AStrangerOpensNone) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const ServiceIncarnation first = h.service();
  LeaveAll(h);

  EXPECT_THAT(h.Reply(h.Register(2, 300)), HasError(StatusCode::kInvalidArgument));

  EXPECT_EQ(h.service(), first);
}

TEST(Attempts, KeysBarriersAndErrorsStartEmpty) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.Set(0, "k", "of the first");
  h.Arrive(0, "b");
  ASSERT_THAT(h.Reply(h.Arrive(1, "b")), PassedBarrier(0));
  h.Arrive(0, "open");
  h.Poll(0);
  h.Report(1, StatusCode::kInternal, "broken");

  h.RegisterAll(200);

  EXPECT_EQ(h.View().keys, 0u);
  EXPECT_EQ(h.View().key_bytes, 0u);
  EXPECT_THAT(h.View().barriers, IsEmpty());
  EXPECT_THAT(h.Reply(h.TryGet(0, "k")), HasError(StatusCode::kNotFound));
  EXPECT_TRUE(h.Pending(h.Poll(0))) << "the error of the first attempt is not told in the second";
  const CallId again = h.Arrive(0, "b");
  EXPECT_TRUE(h.Pending(again)) << "counter 0 is a new instance";
  EXPECT_THAT(h.Reply(h.Arrive(1, "b")), PassedBarrier(0));
  EXPECT_THAT(h.Reply(again), PassedBarrier(0));
}

TEST(Attempts, PeopleKeepTheErrorsOfAll) {
  CoordinatorHarness h({.size = 1});
  h.RegisterAll();
  h.Report(0, StatusCode::kInternal, "first mishap");
  h.RegisterAll(200);
  h.Report(0, StatusCode::kInternal, "second mishap");

  const std::vector<ErrorView> errors = h.View().errors;

  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].attempt, 1);
  EXPECT_THAT(errors[0].message, ::testing::HasSubstr("first mishap"));
  EXPECT_EQ(errors[1].attempt, 2);
  EXPECT_FALSE(errors[1].consequence) << "each attempt has a root cause of its own";
}

TEST(Attempts, AfterAFailureTheCauserIsAbortedAndItsRetryOpensTheNext) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.PollAll();
  const ServiceIncarnation first = h.service();
  ASSERT_THAT(h.Reply(h.Register(1, 200)), HasError(StatusCode::kAborted));
  EXPECT_EQ(h.service(), first);

  const CallId retry = h.Register(1, 200);

  EXPECT_TRUE(h.Pending(retry));
  EXPECT_NE(h.service(), first);
  EXPECT_EQ(h.Condition(0), MemberCondition::kMissing);
  EXPECT_THAT(h.Reply(h.Register(0, 201)), Succeeded());
  EXPECT_THAT(h.Reply(retry), Succeeded());
}

TEST(Attempts, AfterAFailureThoseOfTheFailedAttemptOpenNone) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  h.PollAll();
  const ServiceIncarnation first = h.service();
  h.Report(0, StatusCode::kInternal, "broken");

  EXPECT_THAT(h.Reply(h.Register(0, 100)), HasError(StatusCode::kAborted, "broken"));
  EXPECT_THAT(h.Reply(h.Register(1, 101)), HasError(StatusCode::kAborted, "broken"));

  EXPECT_EQ(h.service(), first);
}

TEST(Attempts, AFailedRegistrationIsFollowedByTheNext) {
  CoordinatorHarness h({.size = 2, .register_timeout = absl::Seconds(60)});
  const CallId alone = h.Register(0, 100);
  h.Advance(absl::Seconds(60));
  ASSERT_THAT(h.Reply(alone), HasError(StatusCode::kDeadlineExceeded));

  h.RegisterAll(200);

  EXPECT_EQ(h.View().attempt, 2);
  EXPECT_EQ(h.View().state, AttemptState::kRunning);
}

TEST(Attempts, AnUnfinishedOneGoesOnWhenSomeHaveLeft) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::ZeroDuration()});
  h.RegisterAll();
  const ServiceIncarnation first = h.service();
  h.Leave(0);

  EXPECT_THAT(h.Reply(h.Register(0, 200)), Succeeded());
  EXPECT_EQ(h.service(), first);
}

TEST(Attempts, RequestsOfTheOldOneAreRefusedAndChangeNothing) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const Who old0 = h.Snapshot(0);
  LeaveAll(h);
  h.RegisterAll(200);
  h.Set(0, "k", "v");
  const CallId arrival = h.Arrive(0, "b");
  const CallId poll = h.Poll(0);

  for (CallId call :
       {h.Heartbeat(old0), h.Poll(old0), h.Report(old0, StatusCode::kInternal, "x"), h.Leave(old0),
        h.Reset(old0), h.Watch(old0), h.Set(old0, "k", "w", true), h.Get(old0, "k"),
        h.TryGet(old0, "k"), h.Increment(old0, "n", 1), h.List(old0, "k"), h.Delete(old0, "k"),
        h.Arrive(old0, "b"), h.Cancel(old0, "b"), h.Alive(old0, {0, 1})}) {
    EXPECT_THAT(h.Reply(call), IsFromAnotherAttempt(h.service()));
  }

  EXPECT_EQ(h.Value(h.TryGet(0, "k")), "v");
  EXPECT_EQ(h.View().keys, 1u);
  EXPECT_TRUE(h.Pending(arrival));
  EXPECT_TRUE(h.Pending(poll));
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST(Attempts, CallsParkedInAFailedOneAreAnsweredWhenTheNextOpens) {
  CoordinatorHarness h({.size = 3});
  h.RegisterAll();
  h.PollAll();
  h.Report(2, StatusCode::kInternal, "broken");
  h.Advance(absl::Seconds(1));
  const std::vector<CallId> parked = {h.Get(0, "k"), h.Watch(0, h.Watched(h.Watch(0)).version),
                                      h.Arrive(0, "b", {.members = {0, 1}}), h.Alive(0, {0, 1})};
  for (CallId call : parked) ASSERT_TRUE(h.Pending(call));

  h.Register(2, 200);

  for (CallId call : parked) {
    ASSERT_FALSE(h.Pending(call));
    EXPECT_THAT(h.Reply(call), IsFromAnotherAttempt(h.service()));
  }
}

TEST(Attempts, CallsParkedInAnEndedOneAreAnsweredWhenTheNextOpens) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const CallId get = h.Get(0, "k");
  LeaveAll(h);
  const CallId poll = h.Poll(0);
  EXPECT_TRUE(h.Pending(get));
  EXPECT_TRUE(h.Pending(poll)) << "within the grace period";

  h.Register(0, 200);

  EXPECT_THAT(h.Reply(get), IsFromAnotherAttempt(h.service()));
  EXPECT_THAT(h.Reply(poll), IsFromAnotherAttempt(h.service()));
}

TEST(Attempts, HangingUpOnTheOldOneDoesNotTouchTheNew) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  const std::vector<CallId> polls = h.PollAll();
  h.Report(0, StatusCode::kInternal, "broken");
  h.RegisterAll(200);

  for (CallId poll : polls) h.Hangup(poll);
  h.Advance(absl::Seconds(10));

  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
}

TEST(Attempts, TheEndOfAnOldProcessDoesNotTouchTheNew) {
  CoordinatorHarness h({.size = 1});
  h.ProcessStarted(0, 50);
  h.RegisterAll();
  h.Report(0, StatusCode::kInternal, "broken");
  h.ProcessStarted(0, 51);
  h.RegisterAll(200);

  h.ProcessEnded(0, 50, /*exit_code=*/1);

  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST(Attempts, DeadlinesOfTheOldOneDoNotFireInTheNew) {
  CoordinatorHarness h({.size = 2, .shutdown_timeout = absl::Seconds(20)});
  h.RegisterAll();
  h.Poll(0);
  h.Arrive(0, "b", {.timeout = absl::Seconds(5)});
  h.Leave(0);
  h.Register(1, 200);
  ASSERT_EQ(h.View().state, AttemptState::kFailed);
  h.RegisterAll(300);
  h.KeepAlive({0, 1});

  h.Advance(absl::Minutes(10));

  EXPECT_EQ(h.View().attempt, 2);
  EXPECT_EQ(h.View().state, AttemptState::kRunning);
  for (const ErrorView& error : h.View().errors) EXPECT_EQ(error.attempt, 1) << error.message;
}

TEST(Attempts, EachHasAnIncarnationOfItsOwnDrawnFromTheSeed) {
  CoordinatorHarness h({.size = 1, .incarnation_seed = 17});
  CoordinatorHarness same({.size = 1, .incarnation_seed = 17});
  CoordinatorHarness other({.size = 1, .incarnation_seed = 18});
  std::set<uint64_t> seen;

  for (uint64_t attempt = 1; attempt <= 20; ++attempt) {
    for (CoordinatorHarness* each : {&h, &same, &other}) {
      each->RegisterAll(100 * attempt);
      each->Leave(0);
    }
    EXPECT_TRUE(seen.insert(h.service().value()).second);
    EXPECT_TRUE(seen.insert(other.service().value()).second);
    EXPECT_EQ(h.service(), same.service());
  }
  EXPECT_FALSE(seen.contains(0));
}

TEST(Attempts, AStoppedCoordinatorOpensNone) {
  CoordinatorHarness h({.size = 1});
  h.RegisterAll();
  h.Leave(0);
  h.Stop();

  EXPECT_THAT(h.Reply(h.Register(0, 200)),
              HasError(StatusCode::kInternal, Reason::kServiceStopped));
}

// A run whose processes join, which ends well; then another one whose processes do not.
TEST(Attempts, UseA01_TheNewestRunIsShownOnceItsProcessesExist) {
  CoordinatorHarness h({.size = 2});
  for (int member = 0; member < 2; ++member) h.ProcessStarted(member, 50 + member);
  h.RegisterAll();
  EXPECT_EQ(h.NewestRun().members[0].pid, 50);
  LeaveAll(h);
  for (int member = 0; member < 2; ++member) h.ProcessEnded(member, 50 + member, 0, 0);
  EXPECT_EQ(h.NewestRun().state, AttemptState::kEnded);
  EXPECT_EQ(h.NewestRun().attempt, 1);

  h.ProcessStarted(0, 60);

  EXPECT_EQ(h.NewestRun().state, AttemptState::kWaiting);
  EXPECT_EQ(h.NewestRun().attempt, 2) << "what they join will be";
  EXPECT_EQ(h.NewestRun().members[0].condition, MemberCondition::kMissing);
  EXPECT_EQ(h.NewestRun().members[0].name, "task/0") << "not of the life that has left";
  EXPECT_EQ(h.NewestRun().members[0].pid, 60);
  EXPECT_EQ(h.NewestRun().members[1].pid, 0) << "the one that ran before is not of this run";
  EXPECT_EQ(h.NewestRun().members[1].process, ProcessState::kUnknown);

  h.ProcessStarted(1, 61);
  for (int member = 0; member < 2; ++member) h.ProcessEnded(member, 60 + member, 1, 0);

  EXPECT_EQ(h.NewestRun().state, AttemptState::kWaiting);
  for (const MemberView& member : h.NewestRun().members) {
    EXPECT_EQ(member.process, ProcessState::kFailed);
    EXPECT_THAT(member.why, ::testing::HasSubstr("exited with code 1"));
  }
}

TEST(Attempts, UseA01_AProcessOfTheRunBeforeSaysNothingOfTheNextAttempt) {
  CoordinatorHarness h({.size = 2});
  for (int member = 0; member < 2; ++member) h.ProcessStarted(member, 50 + member);
  h.RegisterAll();
  h.ProcessEnded(1, 51, 1, 0);
  ASSERT_EQ(h.NewestRun().state, AttemptState::kFailed);

  h.Register(0, 200);  // by hand: no launcher tells

  EXPECT_EQ(h.NewestRun().attempt, 2);
  EXPECT_EQ(h.NewestRun().members[1].condition, MemberCondition::kMissing);
  EXPECT_EQ(h.NewestRun().members[1].process, ProcessState::kUnknown);
  EXPECT_THAT(h.NewestRun().members[1].why, ::testing::HasSubstr("in the run before"));
}

TEST(Attempts, UseA01_AProcessThatFailedBeforeOthersOfItsRunCameIsStillSeen) {
  CoordinatorHarness h({.size = 2});
  h.RegisterAll();
  LeaveAll(h);
  for (int member = 0; member < 2; ++member) h.ProcessStarted(member, 60 + member);
  h.ProcessEnded(1, 61, 1, 0);

  h.Register(0, 200);

  EXPECT_EQ(h.NewestRun().attempt, 2);
  EXPECT_EQ(h.NewestRun().members[0].condition, MemberCondition::kRegistering);
  EXPECT_EQ(h.NewestRun().members[1].process, ProcessState::kFailed);
}

}  // namespace
}  // namespace lockstep::coord

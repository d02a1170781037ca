// Rows 115-117: jobs whose members may die and come back.
#include "gtest/gtest.h"
#include "lockstep/testing/coordinator_harness.h"
#include "lockstep/testing/matchers.h"

namespace lockstep::coord {
namespace {

using absl::StatusCode;
using lockstep::testing::CoordinatorHarness;
using lockstep::testing::HasError;
using lockstep::testing::PassedBarrier;
using lockstep::testing::Succeeded;

// How the first life of member 0 ends.
enum class Ending { kSilently, kByReset, kLost, kReported };

class ConformanceRecoverable : public ::testing::TestWithParam<Ending> {
 protected:
  ConformanceRecoverable() : h({.size = 3, .recoverable = true}) {
    h.RegisterAll();
    poll0_ = h.Poll(0);
    h.KeepAlive({1, 2});
  }

  // Ends the life of member 0 and lets it in again, as another one.
  void RestartMember0() {
    switch (GetParam()) {
      case Ending::kSilently:
        break;
      case Ending::kByReset:
        EXPECT_THAT(h.Reply(h.Reset(0)), Succeeded());
        break;
      case Ending::kReported:
        h.Report(0, StatusCode::kInternal, "broken");
        EXPECT_THAT(h.Reply(h.Reset(0)), Succeeded());
        break;
      case Ending::kLost:
        h.Hangup(poll0_);
        h.Advance(absl::Seconds(1));
        EXPECT_EQ(h.Condition(0), MemberCondition::kLost);
        break;
    }
    EXPECT_THAT(h.Reply(h.Register(0, 200)), Succeeded());
    EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
  }

  void Pass(const std::string& id, int64_t counter) {
    h.Arrive(0, id, {.counter = counter});
    h.Arrive(1, id, {.counter = counter});
    ASSERT_THAT(h.Reply(h.Arrive(2, id, {.counter = counter})), PassedBarrier(counter));
  }

  CoordinatorHarness h;
  CallId poll0_;
};

TEST_P(ConformanceRecoverable, Row115_AFreshLifeJoinsAUsedIdAtItsNextCounter) {
  Pass("b", 0);
  RestartMember0();

  const CallId call0 = h.Arrive(0, "b", {.counter = 0});
  EXPECT_TRUE(h.Pending(call0));
  const CallId call1 = h.Arrive(1, "b", {.counter = 1});
  const CallId call2 = h.Arrive(2, "b", {.counter = 1});

  for (CallId call : {call0, call1, call2}) EXPECT_THAT(h.Reply(call), PassedBarrier(1));
}

TEST_P(ConformanceRecoverable, Row116_OthersWaitUntilTheRestartedOneJoins) {
  const CallId call1 = h.Arrive(1, "b", {.timeout = absl::Seconds(60)});
  const CallId call2 = h.Arrive(2, "b", {.timeout = absl::Seconds(60)});

  RestartMember0();
  EXPECT_TRUE(h.Pending(call1));
  const CallId call0 = h.Arrive(0, "b", {.timeout = absl::Seconds(60)});

  for (CallId call : {call0, call1, call2}) EXPECT_THAT(h.Reply(call), PassedBarrier(0));
}

TEST_P(ConformanceRecoverable, Row116_AlsoWithEarlierBarriers) {
  Pass("b", 0);
  Pass("b", 1);
  const CallId call1 = h.Arrive(1, "b", {.counter = 2, .timeout = absl::Seconds(60)});
  const CallId call2 = h.Arrive(2, "b", {.counter = 2, .timeout = absl::Seconds(60)});

  RestartMember0();
  const CallId call0 = h.Arrive(0, "b", {.counter = 0, .timeout = absl::Seconds(60)});

  for (CallId call : {call0, call1, call2}) EXPECT_THAT(h.Reply(call), PassedBarrier(2));
}

TEST_P(ConformanceRecoverable, Row117_TheStaleArrivalOfARestartedOneIsCancelled) {
  const CallId stale = h.Arrive(0, "b", {.timeout = absl::Seconds(60)});
  const CallId call1 = h.Arrive(1, "b", {.timeout = absl::Seconds(60)});

  RestartMember0();
  EXPECT_THAT(h.Reply(stale), HasError(StatusCode::kCancelled));
  const CallId call2 = h.Arrive(2, "b", {.timeout = absl::Seconds(60)});
  EXPECT_TRUE(h.Pending(call2)) << "its old arrival does not count";
  const CallId call0 = h.Arrive(0, "b", {.timeout = absl::Seconds(60)});

  for (CallId call : {call0, call1, call2}) EXPECT_THAT(h.Reply(call), PassedBarrier(0));
}

INSTANTIATE_TEST_SUITE_P(Endings, ConformanceRecoverable,
                         ::testing::Values(Ending::kSilently, Ending::kByReset, Ending::kLost,
                                           Ending::kReported),
                         [](const auto& param) {
                           switch (param.param) {
                             case Ending::kSilently:
                               return "Silently";
                             case Ending::kByReset:
                               return "ByReset";
                             case Ending::kLost:
                               return "Lost";
                             case Ending::kReported:
                               return "Reported";
                           }
                           return "";
                         });

TEST(Recoverable, ABarrierWithAnAbsentMemberTimesOutAndNamesIt) {
  CoordinatorHarness h({.size = 2, .recoverable = true});
  h.RegisterAll();
  const CallId poll1 = h.Poll(1);
  const CallId call0 = h.Arrive(0, "b", {.timeout = absl::Seconds(20)});

  h.Hangup(poll1);
  h.Advance(absl::Seconds(19));
  EXPECT_TRUE(h.Pending(call0));
  h.Advance(absl::Seconds(1));

  EXPECT_THAT(h.Reply(call0), HasError(StatusCode::kDeadlineExceeded, "1/2", "task/1"));
}

TEST(Recoverable, AHeartbeatOfAStaleLifeIsTakenAndChangesNothing) {
  CoordinatorHarness h({.size = 2, .recoverable = true});
  h.RegisterAll();
  h.Register(0, 200);

  EXPECT_THAT(h.Reply(h.Heartbeat(lockstep::testing::Who(0).As(100))), Succeeded());
  EXPECT_EQ(h.Condition(0), MemberCondition::kConnected);
}

TEST(Recoverable, EachMemberHasAGraceOfItsOwn) {
  CoordinatorHarness h({.size = 3, .recoverable = true});
  h.ProcessStarted(2, 53);
  h.RegisterAll();
  h.Hangup(h.Poll(1));
  h.Advance(absl::Milliseconds(100));

  h.ProcessEnded(2, 53, /*exit_code=*/1);

  EXPECT_EQ(h.Condition(2), MemberCondition::kLost);
  EXPECT_EQ(h.Condition(1), MemberCondition::kSuspect) << "the loss of one says nothing of others";
  h.Poll(1);
  EXPECT_EQ(h.Condition(1), MemberCondition::kConnected);
}

TEST(Recoverable, TheJobEndsWhenAllHaveLeft) {
  CoordinatorHarness h({.size = 2, .recoverable = true});
  h.RegisterAll();
  const ServiceIncarnation first = h.service();
  h.Leave(0);
  h.Leave(1);
  EXPECT_EQ(h.View().state, AttemptState::kEnded);

  h.Register(0, 200);

  EXPECT_NE(h.service(), first);
  EXPECT_EQ(h.View().attempt, 2);
}

}  // namespace
}  // namespace lockstep::coord

#include "lockstep/preempt/aws_machine.h"

#include "absl/strings/match.h"
#include "lockstep/testing/sights.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::Answer;
using lockstep::testing::At;
using lockstep::testing::HeaderOf;
using lockstep::testing::IsQuiet;
using lockstep::testing::Only;
using lockstep::testing::Wall;

constexpr const char* kSpot = "/latest/meta-data/spot/instance-action";
constexpr const char* kScheduled = "/latest/meta-data/events/maintenance/scheduled";

// Answers the machine until it asks for `target`.
void AdvanceTo(AwsMachine& machine, const std::string& target, absl::Duration at = {}) {
  for (int i = 0; i < 10; ++i) {
    const HttpRequest request = machine.Ask(At(at));
    if (request.target == target) return;
    machine.Take(At(at), request.method == "PUT" ? Answer(200, "token") : Answer(404));
  }
  FAIL() << "never asked for " << target;
}

TEST(AwsMachine, FetchesATokenFirstAndShowsItEverywhere) {
  AwsMachine machine({});
  const HttpRequest first = machine.Ask(At());
  EXPECT_EQ(first.method, "PUT");
  EXPECT_EQ(first.target, "/latest/api/token");
  EXPECT_EQ(HeaderOf(first, "X-aws-ec2-metadata-token-ttl-seconds"), "3600");

  EXPECT_EQ(machine.Take(At(), Answer(200, "abc==\n")).next, absl::ZeroDuration());
  const HttpRequest second = machine.Ask(At());

  EXPECT_EQ(second.target, kSpot);
  EXPECT_EQ(HeaderOf(second, "X-aws-ec2-metadata-token"), "abc==");
}

TEST(AwsMachine, ASpotInterruptionHasItsTime) {
  AwsMachine machine({});
  AdvanceTo(machine, kSpot);
  const Notice notice = Only(machine.Take(
      At(), Answer(200, R"({"action": "terminate", "time": "2026-03-01T12:02:00Z"})")));
  EXPECT_EQ(notice.kind, NoticeKind::kPreempt);
  EXPECT_EQ(notice.death, At(absl::Minutes(2)).steady);
  EXPECT_TRUE(absl::StrContains(notice.text, "terminate"));
}

TEST(AwsMachine, NotFoundIsNothingAndWithdraws) {
  AwsMachine machine({});
  AdvanceTo(machine, kSpot);
  machine.Take(At(), Answer(200, R"({"action": "stop", "time": "2026-03-01T12:02:00Z"})"));
  AdvanceTo(machine, kSpot, absl::Seconds(2));
  EXPECT_TRUE(IsQuiet(machine.Take(At(absl::Seconds(2)), Answer(404))));
}

TEST(AwsMachine, LooksForInterruptionsMoreOftenThanForTheRest) {
  AwsMachine machine({});
  AdvanceTo(machine, kSpot);
  machine.Take(At(), Answer(404));
  machine.Ask(At());
  machine.Take(At(), Answer(404));
  machine.Ask(At());
  EXPECT_EQ(machine.Take(At(), Answer(404)).next, absl::Seconds(2));
  EXPECT_EQ(machine.Ask(At(absl::Seconds(2))).target, kSpot);
  EXPECT_EQ(machine.Take(At(absl::Seconds(2)), Answer(404)).next, absl::Seconds(2));
}

TEST(AwsMachine, ATokenThatIsNoLongerGoodIsRenewedOnceForAPage) {
  AwsMachine machine({});
  AdvanceTo(machine, kSpot);
  EXPECT_TRUE(machine.Take(At(), Answer(401)).health.ok());
  EXPECT_EQ(machine.Ask(At()).method, "PUT");
  machine.Take(At(), Answer(200, "second"));
  EXPECT_EQ(HeaderOf(machine.Ask(At()), "X-aws-ec2-metadata-token"), "second");
  EXPECT_FALSE(machine.Take(At(), Answer(401)).health.ok());
}

TEST(AwsMachine, ATokenIsRenewedBeforeItExpires) {
  AwsMachine machine({.token_ttl = absl::Seconds(60)});
  AdvanceTo(machine, kSpot);
  machine.Take(At(), Answer(404));
  EXPECT_EQ(machine.Ask(At(absl::Seconds(44))).method, "GET");
  machine.Take(At(absl::Seconds(44)), Answer(404));
  EXPECT_EQ(machine.Ask(At(absl::Seconds(46))).method, "PUT");
}

TEST(AwsMachine, WithoutTokensItAsksAsVersion1UnlessToldNotTo) {
  AwsMachine machine({});
  machine.Ask(At());
  EXPECT_TRUE(machine.Take(At(), Answer(404)).health.ok());
  const HttpRequest request = machine.Ask(At());
  EXPECT_EQ(request.target, kSpot);
  EXPECT_EQ(HeaderOf(request, "X-aws-ec2-metadata-token"), "");

  AwsMachine strict({.version_1_allowed = false});
  strict.Ask(At());
  EXPECT_FALSE(strict.Take(At(), absl::UnavailableError("no")).health.ok());
  EXPECT_EQ(strict.Ask(At()).method, "PUT");
}

TEST(AwsMachine, Version1ThatIsRefusedGoesBackToTokens) {
  AwsMachine machine({});
  machine.Ask(At());
  machine.Take(At(), absl::DeadlineExceededError("slow"));
  machine.Ask(At());
  EXPECT_FALSE(machine.Take(At(), Answer(401)).health.ok());
  EXPECT_EQ(machine.Ask(At()).method, "PUT");
}

TEST(AwsMachine, ScheduledEventsThatAreActiveHaveTheirOwnIds) {
  AwsMachine machine({});
  AdvanceTo(machine, kScheduled);
  const Notice notice = Only(machine.Take(At(), Answer(200, R"([
    {"NotBefore": "21 Mar 2026 09:00:43 GMT", "Code": "system-reboot", "EventId": "event-1",
     "State": "active", "Description": "scheduled reboot"},
    {"NotBefore": "01 Mar 2026 09:00:43 GMT", "Code": "system-reboot", "EventId": "event-0",
     "State": "completed", "Description": "[Completed] scheduled reboot"}])")));
  EXPECT_EQ(notice.id, "event-1");
  EXPECT_EQ(notice.kind, NoticeKind::kMaintenance);
  EXPECT_EQ(notice.death, SteadyAt(At(), Wall("2026-03-21T09:00:43Z")));
}

TEST(AwsMachine, APageThatFailsLeavesWhatStoodAndTheOthers) {
  AwsMachine machine({});
  AdvanceTo(machine, kSpot);
  machine.Take(At(), Answer(200, R"({"action": "stop", "time": "2026-03-01T12:02:00Z"})"));
  AdvanceTo(machine, kSpot, absl::Seconds(2));
  for (const auto& answer : {Answer(500), Answer(200, "{\"action\""), Answer(200, "null")}) {
    const Sight sight = machine.Take(At(absl::Seconds(2)), answer);
    EXPECT_FALSE(sight.health.ok());
    ASSERT_TRUE(sight.notices);
    EXPECT_EQ(sight.notices->size(), 1);
    EXPECT_GE(sight.next, absl::Seconds(2));
  }
}

TEST(AwsMachine, WhatIsNoTokenIsNotSent) {
  AwsMachine machine({.version_1_allowed = false});
  machine.Ask(At());
  const Sight sight = machine.Take(At(), Answer(200, "a\r\nX-Evil: 1"));
  EXPECT_FALSE(sight.health.ok());
  EXPECT_FALSE(absl::StrContains(sight.health.message(), "Evil"));
}

}  // namespace
}  // namespace lockstep::preempt

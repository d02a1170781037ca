#include "lockstep/preempt/gce_machine.h"

#include "absl/strings/match.h"
#include "lockstep/testing/sights.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::Answer;
using lockstep::testing::At;
using lockstep::testing::HeaderOf;
using lockstep::testing::IsQuiet;
using lockstep::testing::Only;

using Key = GceMachine::Key;

HttpMessage FromGoogle(const std::string& value, const std::string& etag) {
  return Answer(200, value, {{"metadata-flavor", "Google"}, {"etag", etag}});
}

TEST(GceMachine, AsksPlainlyFirstThenWaitsForAnotherEtag) {
  GceMachine machine(Key::kPreempted, {});
  const HttpRequest first = machine.Ask(At());
  EXPECT_EQ(first.target, "/computeMetadata/v1/instance/preempted?alt=text");
  EXPECT_EQ(HeaderOf(first, "Metadata-Flavor"), "Google");

  const Sight sight = machine.Take(At(), FromGoogle("FALSE\n", "a1"));
  const HttpRequest second = machine.Ask(At());

  EXPECT_TRUE(IsQuiet(sight));
  EXPECT_EQ(sight.next, absl::ZeroDuration());
  EXPECT_EQ(second.target,
            "/computeMetadata/v1/instance/"
            "preempted?alt=text&wait_for_change=true&last_etag=a1&timeout_sec=60");
  EXPECT_GT(second.timeout, absl::Seconds(60));
}

TEST(GceMachine, PreemptionGivesHalfAMinute) {
  GceMachine machine(Key::kPreempted, {});
  machine.Ask(At());
  const Notice notice = Only(machine.Take(At(), FromGoogle("TRUE", "a2")));
  EXPECT_EQ(notice.kind, NoticeKind::kPreempt);
  EXPECT_EQ(notice.lead, absl::Seconds(30));
}

TEST(GceMachine, MaintenanceThatGoesBackToNoneIsWithdrawn) {
  GceMachine machine(Key::kMaintenanceEvent, {.maintenance_lead = absl::Hours(1)});
  machine.Ask(At());
  const Notice notice = Only(machine.Take(At(), FromGoogle("TERMINATE_ON_HOST_MAINTENANCE", "1")));
  EXPECT_EQ(notice.lead, absl::Hours(1));
  machine.Ask(At());
  EXPECT_TRUE(IsQuiet(machine.Take(At(), FromGoogle("NONE", "2"))));
}

TEST(GceMachine, MigrationIsNoNoticeUnlessAskedFor) {
  GceMachine calm(Key::kMaintenanceEvent, {});
  GceMachine wary(Key::kMaintenanceEvent, {.migration_is_notice = true});
  calm.Ask(At());
  wary.Ask(At());
  const HttpMessage answer = FromGoogle("MIGRATE_ON_HOST_MAINTENANCE", "1");
  EXPECT_TRUE(IsQuiet(calm.Take(At(), answer)));
  EXPECT_EQ(Only(wary.Take(At(), answer)).kind, NoticeKind::kMaintenance);
}

TEST(GceMachine, PlannedMaintenanceBeginsWithItsWindowUnderEitherSpelling) {
  for (const char* body : {R"({"type":"SCHEDULED","maintenanceStatus":"PENDING",
            "windowStartTime":"2026-03-02T12:00:00Z"})",
                           R"({"type":"SCHEDULED","maintenance_status":"PENDING",
            "window_start_time":"2026-03-02T12:00:00Z"})"}) {
    GceMachine machine(Key::kUpcomingMaintenance, {});
    machine.Ask(At());
    const Notice notice = Only(machine.Take(At(), FromGoogle(body, "1")));
    EXPECT_EQ(notice.death, At(absl::Hours(24)).steady);
  }
}

TEST(GceMachine, AKeyThatTheMachineHasNotGotIsAskedSeldom) {
  GceMachine machine(Key::kUpcomingMaintenance, {});
  machine.Ask(At());
  const Sight sight = machine.Take(At(), Answer(404, "", {{"metadata-flavor", "Google"}}));
  EXPECT_TRUE(IsQuiet(sight));
  EXPECT_EQ(sight.next, absl::Minutes(1));
}

TEST(GceMachine, WhoIsNotGoogleIsNotBelieved) {
  GceMachine machine(Key::kPreempted, {});
  machine.Ask(At());
  const Sight sight = machine.Take(At(), Answer(200, "TRUE", {{"etag", "1"}}));
  EXPECT_FALSE(sight.health.ok());
  EXPECT_FALSE(sight.notices);
}

TEST(GceMachine, AfterAnErrorItWaitsAndAsksPlainly) {
  GceMachine machine(Key::kPreempted, {});
  machine.Ask(At());
  machine.Take(At(), FromGoogle("FALSE", "1"));
  machine.Ask(At());
  const Sight sight = machine.Take(At(), Answer(503, "do not repeat me"));
  EXPECT_EQ(sight.next, absl::Seconds(1));
  EXPECT_FALSE(sight.notices);
  EXPECT_FALSE(absl::StrContains(sight.health.message(), "repeat"));
  EXPECT_EQ(machine.Ask(At()).target, "/computeMetadata/v1/instance/preempted?alt=text");
  EXPECT_EQ(machine.Take(At(), Answer(503)).next, absl::Seconds(2));
}

TEST(GceMachine, AServerThatDoesNotWaitIsNotHammered) {
  GceMachine machine(Key::kPreempted, {});
  machine.Ask(At());
  machine.Take(At(), FromGoogle("FALSE", "1"));
  machine.Ask(At());
  EXPECT_EQ(machine.Take(At(absl::Milliseconds(1)), FromGoogle("FALSE", "1")).next,
            absl::Seconds(1));
}

TEST(GceMachine, AnEtagThatWouldBreakOutOfTheQueryIsNotUsed) {
  GceMachine machine(Key::kPreempted, {});
  machine.Ask(At());
  const Sight sight = machine.Take(At(), FromGoogle("FALSE", "1&recursive=true"));
  EXPECT_EQ(sight.next, absl::Seconds(1));
  EXPECT_EQ(machine.Ask(At()).target, "/computeMetadata/v1/instance/preempted?alt=text");
}

TEST(GceMachine, AValueThatNobodyKnowsIsAnError) {
  GceMachine machine(Key::kPreempted, {});
  machine.Ask(At());
  EXPECT_FALSE(machine.Take(At(), FromGoogle("PERHAPS", "1")).health.ok());
}

}  // namespace
}  // namespace lockstep::preempt

#include "lockstep/preempt/azure_machine.h"

#include "absl/strings/match.h"
#include "lockstep/testing/sights.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::Answer;
using lockstep::testing::At;
using lockstep::testing::HeaderOf;
using lockstep::testing::IsQuiet;
using lockstep::testing::Only;

std::string Document(int incarnation, const std::string& events) {
  return absl::StrCat(R"({"DocumentIncarnation": )", incarnation, R"(, "Events": [)", events, "]}");
}

constexpr const char* kPreempt = R"({"EventId": "E-1", "EventType": "Preempt",
  "ResourceType": "VirtualMachine", "Resources": ["gpu_3", "gpu_7"], "EventStatus": "Scheduled",
  "NotBefore": "Sun, 01 Mar 2026 12:00:30 GMT", "Description": "spot", "DurationInSeconds": -1})";

// A machine that knows its name.
void Name(AzureMachine& machine, const std::string& name = "gpu_7") {
  EXPECT_TRUE(absl::StartsWith(machine.Ask(At()).target, "/metadata/instance/compute/name?"));
  EXPECT_EQ(machine.Take(At(), Answer(200, name)).next, absl::ZeroDuration());
}

TEST(AzureMachine, AsksForItsNameThenForEvents) {
  AzureMachine machine({});
  Name(machine);
  const HttpRequest request = machine.Ask(At());
  EXPECT_EQ(request.target, "/metadata/scheduledevents?api-version=2020-07-01");
  EXPECT_EQ(HeaderOf(request, "Metadata"), "true");
  // The first answer switches the feature on, and may take two minutes.
  EXPECT_GT(request.timeout, absl::Minutes(2));
  EXPECT_EQ(machine.Take(At(), Answer(200, Document(1, ""))).next, absl::Seconds(1));
  EXPECT_LT(machine.Ask(At()).timeout, absl::Minutes(1));
}

TEST(AzureMachine, AnEventOfThisMachineIsANotice) {
  AzureMachine machine({});
  Name(machine);
  machine.Ask(At());
  const Notice notice = Only(machine.Take(At(), Answer(200, Document(1, kPreempt))));
  EXPECT_EQ(notice.id, "E-1");
  EXPECT_EQ(notice.kind, NoticeKind::kPreempt);
  EXPECT_EQ(notice.death, At(absl::Seconds(30)).steady);
}

TEST(AzureMachine, AnEventOfOthersInTheScaleSetIsNot) {
  AzureMachine machine({});
  Name(machine, "gpu_1");
  machine.Ask(At());
  EXPECT_TRUE(IsQuiet(machine.Take(At(), Answer(200, Document(1, kPreempt)))));
}

TEST(AzureMachine, AnEventThatHasStartedIsDueNowAndOneThatIsGoneIsWithdrawn) {
  AzureMachine machine({.machine = "gpu_7"});
  machine.Ask(At());
  const Notice notice = Only(machine.Take(
      At(), Answer(200, Document(1, R"({"EventId": "E-2", "EventType": "Reboot", "NotBefore": "",
        "Resources": ["GPU_7"], "EventStatus": "Started"})"))));
  EXPECT_EQ(notice.kind, NoticeKind::kMaintenance);
  EXPECT_EQ(notice.lead, absl::ZeroDuration());
  machine.Ask(At());
  EXPECT_TRUE(IsQuiet(machine.Take(At(), Answer(200, Document(2, "")))));
}

TEST(AzureMachine, TheSameIncarnationIsNotReadAgain) {
  AzureMachine machine({.machine = "gpu_7"});
  machine.Ask(At());
  machine.Take(At(), Answer(200, Document(5, kPreempt)));
  machine.Ask(At());
  EXPECT_EQ(Only(machine.Take(At(), Answer(200, Document(5, "")))).id, "E-1");
}

TEST(AzureMachine, AFreezeEndsNothingUnlessToldOtherwise) {
  const std::string freeze = R"({"EventId": "E-3", "EventType": "Freeze", "Resources": ["gpu_7"],
    "EventStatus": "Scheduled", "NotBefore": "Sun, 01 Mar 2026 12:15:00 GMT"})";
  AzureMachine calm({.machine = "gpu_7"});
  AzureMachine wary({.machine = "gpu_7", .freeze_is_notice = true});
  calm.Ask(At());
  wary.Ask(At());
  EXPECT_TRUE(IsQuiet(calm.Take(At(), Answer(200, Document(1, freeze)))));
  EXPECT_EQ(Only(wary.Take(At(), Answer(200, Document(1, freeze)))).id, "E-3");
}

TEST(AzureMachine, AcknowledgesWhatStandsAndOnlyWhenConfigured) {
  AzureMachine silent({.machine = "gpu_7"});
  AzureMachine machine({.machine = "gpu_7", .acknowledge = true});
  for (AzureMachine* one : {&silent, &machine}) {
    one->Ask(At());
    one->Take(At(), Answer(200, Document(1, kPreempt)));
  }
  EXPECT_FALSE(silent.Acknowledge("E-1"));
  EXPECT_FALSE(machine.Acknowledge("E-9"));
  EXPECT_TRUE(machine.Acknowledge("E-1"));
  EXPECT_FALSE(machine.Acknowledge("E-1"));

  const HttpRequest request = machine.Ask(At());
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.body, R"({"StartRequests":[{"EventId":"E-1"}]})");
  EXPECT_TRUE(machine.Take(At(), Answer(200)).health.ok());
  EXPECT_EQ(machine.Ask(At()).method, "GET");
}

TEST(AzureMachine, AnAcknowledgementThatIsRefusedIsGivenUp) {
  AzureMachine machine({.machine = "gpu_7", .acknowledge = true});
  machine.Ask(At());
  machine.Take(At(), Answer(200, Document(1, kPreempt)));
  machine.Acknowledge("E-1");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(machine.Ask(At()).method, "POST");
    EXPECT_FALSE(machine.Take(At(), Answer(400)).health.ok());
  }
  EXPECT_EQ(machine.Ask(At()).method, "GET");
}

TEST(AzureMachine, WhatIsNoDocumentIsAnError) {
  AzureMachine machine({.machine = "gpu_7"});
  for (const auto& answer : {Answer(429), Answer(200, "<html>"), Answer(200, "{}"),
                             Answer(200, R"({"DocumentIncarnation": 1})")}) {
    machine.Ask(At());
    const Sight sight = machine.Take(At(), answer);
    EXPECT_FALSE(sight.health.ok());
    EXPECT_FALSE(sight.notices);
  }
}

}  // namespace
}  // namespace lockstep::preempt

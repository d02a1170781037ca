#include "lockstep/preempt/kubernetes_machine.h"

#include "absl/strings/match.h"
#include "lockstep/testing/sights.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::Answer;
using lockstep::testing::At;
using lockstep::testing::IsQuiet;
using lockstep::testing::Only;

using Object = KubernetesMachine::Object;

KubernetesOptions Options() { return {.name_space = "ml", .pod = "train-3"}; }

std::string Pod(const std::string& version, const std::string& metadata = "",
                const std::string& status = "") {
  return absl::StrCat(R"({"metadata": {"name": "train-3", "uid": "u-1", "resourceVersion": ")",
                      version, "\"", metadata,
                      R"(}, "spec": {"nodeName": "node-9", "terminationGracePeriodSeconds": 45},)",
                      R"("status": {)", status, "}}");
}
constexpr const char* kDeletion = R"(, "deletionTimestamp": "2026-03-01T12:00:30Z")";
constexpr const char* kDisruption =
    R"("conditions": [{"type": "DisruptionTarget", "status": "True",
                       "reason": "PreemptionByScheduler"}])";

TEST(KubernetesMachine, ReadsThePodThenWatchesItFromThere) {
  KubernetesMachine machine(Object::kPod, Options());
  EXPECT_EQ(machine.Ask(At()).target, "/api/v1/namespaces/ml/pods/train-3");
  EXPECT_TRUE(IsQuiet(machine.Take(At(), Answer(200, Pod("17")))));

  const HttpRequest watch = machine.Ask(At());
  EXPECT_EQ(watch.target,
            "/api/v1/namespaces/ml/pods?watch=true&fieldSelector=metadata.name%3Dtrain-3"
            "&resourceVersion=17&timeoutSeconds=60");
  EXPECT_TRUE(watch.first_line_only);
}

TEST(KubernetesMachine, TheDeletionStampIsTheDeadline) {
  KubernetesMachine machine(Object::kPod, Options());
  machine.Ask(At());
  machine.Take(At(), Answer(200, Pod("17")));
  machine.Ask(At());
  const Notice notice = Only(machine.Take(
      At(),
      Answer(200, absl::StrCat(R"({"type": "MODIFIED", "object": )", Pod("18", kDeletion), "}"))));
  EXPECT_EQ(notice.id, "pod-u-1");
  EXPECT_EQ(notice.death, At(absl::Seconds(30)).steady);
}

TEST(KubernetesMachine, ADisruptionHasTheGracePeriodAndItsReason) {
  KubernetesMachine machine(Object::kPod, Options());
  machine.Ask(At());
  const Notice notice = Only(machine.Take(At(), Answer(200, Pod("17", "", kDisruption))));
  EXPECT_EQ(notice.id, "pod-u-1");
  EXPECT_EQ(notice.lead, absl::Seconds(45));
  EXPECT_TRUE(absl::StrContains(notice.text, "PreemptionByScheduler"));
}

TEST(KubernetesMachine, AWatchThatEndsOrIsTooOldIsBegunAgain) {
  KubernetesMachine machine(Object::kPod, Options());
  machine.Ask(At());
  machine.Take(At(), Answer(200, Pod("17")));
  machine.Ask(At());
  EXPECT_TRUE(machine.Take(At(), Answer(200, "")).health.ok());
  EXPECT_TRUE(absl::StrContains(machine.Ask(At()).target, "resourceVersion=17"));
  EXPECT_TRUE(machine.Take(At(), Answer(410)).health.ok());
  EXPECT_EQ(machine.Ask(At()).target, "/api/v1/namespaces/ml/pods/train-3");
}

TEST(KubernetesMachine, WhereWatchingIsForbiddenItPolls) {
  KubernetesMachine machine(Object::kPod, Options());
  machine.Ask(At());
  machine.Take(At(), Answer(200, Pod("17")));
  machine.Ask(At());
  EXPECT_EQ(machine.Take(At(), Answer(403)).next, absl::Seconds(5));
  EXPECT_EQ(machine.Ask(At()).target, "/api/v1/namespaces/ml/pods/train-3");
  EXPECT_EQ(machine.Take(At(), Answer(200, Pod("17"))).next, absl::Seconds(5));
  EXPECT_EQ(machine.Ask(At()).target, "/api/v1/namespaces/ml/pods/train-3");
}

TEST(KubernetesMachine, TheNodeIsFoundByThePodAndItsTaintsAreNotices) {
  KubernetesMachine machine(Object::kNode, Options());
  EXPECT_EQ(machine.Ask(At()).target, "/api/v1/namespaces/ml/pods/train-3");
  machine.Take(At(), Answer(200, Pod("17")));
  EXPECT_EQ(machine.Ask(At()).target, "/api/v1/nodes/node-9");
  const Sight sight = machine.Take(At(), Answer(200, R"({"metadata": {"resourceVersion": "5"},
    "spec": {"taints": [
      {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"},
      {"key": "aws-node-termination-handler/spot-itn", "effect": "NoExecute"},
      {"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}})"));
  const Notice notice = Only(sight);
  EXPECT_EQ(notice.id, "taint-aws-node-termination-handler/spot-itn");
  EXPECT_EQ(notice.lead, absl::Minutes(2));
  EXPECT_TRUE(absl::StartsWith(machine.Ask(At()).target, "/api/v1/nodes?watch=true"));
}

TEST(KubernetesMachine, ANodeThatMayNotBeReadIsNoFailure) {
  KubernetesOptions options = Options();
  options.node = "node-9";
  KubernetesMachine machine(Object::kNode, options);
  machine.Ask(At());
  const Sight sight = machine.Take(At(), Answer(403));
  EXPECT_TRUE(IsQuiet(sight));
  EXPECT_EQ(sight.next, absl::Minutes(5));
}

TEST(KubernetesMachine, APodThatMayNotBeReadIsOne) {
  KubernetesMachine machine(Object::kPod, Options());
  for (const int status : {401, 403, 404, 500}) {
    machine.Ask(At());
    EXPECT_FALSE(machine.Take(At(), Answer(status)).health.ok());
  }
}

TEST(KubernetesMachine, GarbageIsAnErrorAndTheObjectIsReadAnew) {
  KubernetesMachine machine(Object::kPod, Options());
  machine.Ask(At());
  machine.Take(At(), Answer(200, Pod("17")));
  machine.Ask(At());
  EXPECT_FALSE(machine.Take(At(), Answer(200, "{\"type\": 5}")).health.ok());
  EXPECT_EQ(machine.Ask(At()).target, "/api/v1/namespaces/ml/pods/train-3");
  EXPECT_FALSE(machine.Take(At(), Answer(200, Pod("17&watch=true"))).health.ok());
}

}  // namespace
}  // namespace lockstep::preempt

#include "lockstep/preempt/kubernetes_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "lockstep/base/check.h"

namespace lockstep::preempt {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(10);
constexpr absl::Duration kWatchGrace = absl::Seconds(10);
constexpr size_t kObjectBytesMax = 4 << 20;  // a node lists its images

struct Taint {
  const char* key;
  NoticeKind kind;
  absl::Duration lead;  // infinite: nobody says
};
const Taint kTaints[] = {
    {"cloud.google.com/impending-node-termination", NoticeKind::kPreempt, absl::InfiniteDuration()},
    {"aws-node-termination-handler/spot-itn", NoticeKind::kPreempt, absl::Minutes(2)},
    {"aws-node-termination-handler/rebalance-recommendation", NoticeKind::kRebalance,
     absl::InfiniteDuration()},
    {"ToBeDeletedByClusterAutoscaler", NoticeKind::kPreempt, absl::InfiniteDuration()},
    {"DeletionCandidateOfClusterAutoscaler", NoticeKind::kRebalance, absl::InfiniteDuration()},
    {"karpenter.sh/disrupted", NoticeKind::kPreempt, absl::InfiniteDuration()},
    {"node.kubernetes.io/out-of-service", NoticeKind::kHealth, absl::InfiniteDuration()},
    {"node.kubernetes.io/unschedulable", NoticeKind::kRebalance, absl::InfiniteDuration()},
};

bool IsVersion(const std::string& text) {
  return !text.empty() && text.size() <= 64 &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isalnum(c) != 0; });
}

// The reason of the pod's condition that says it is to be ended, when there is one.
std::optional<std::string> Disruption(const Json& pod) {
  const Json& conditions = Field(Field(pod, "status"), "conditions");
  if (!conditions.is_array()) return std::nullopt;
  for (const Json& condition : conditions) {
    if (StringField(condition, "type") == "DisruptionTarget" &&
        StringField(condition, "status") == "True") {
      return StringField(condition, "reason");
    }
  }
  return std::nullopt;
}

}  // namespace

bool IsKubernetesName(const std::string& name) {
  return !name.empty() && name.size() <= 253 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '.';
         });
}

std::string KubernetesMachine::PodPath() const {
  return absl::StrCat("/api/v1/namespaces/", options_.name_space, "/pods");
}

HttpRequest KubernetesMachine::Ask(const Now&) {
  HttpRequest request{.headers = {{"Accept", "application/json"}},
                      .timeout = kTimeout,
                      .body_bytes_max = kObjectBytesMax};
  const bool pod = object_ == Object::kPod;
  const std::string name = pod ? options_.pod : node_;
  const std::string list = pod ? PodPath() : "/api/v1/nodes";
  if (name.empty()) {
    LOCKSTEP_DCHECK(object_ == Object::kNode && !options_.pod.empty());
    asked_for_ = Asked::kNodeName;
    request.target = absl::StrCat(PodPath(), "/", options_.pod);
  } else if (version_.empty() || !may_watch_) {
    asked_for_ = Asked::kObject;
    request.target = absl::StrCat(list, "/", name);
  } else {
    asked_for_ = Asked::kWatch;
    request.target = absl::StrCat(list, "?watch=true&fieldSelector=metadata.name%3D", name,
                                  "&resourceVersion=", version_,
                                  "&timeoutSeconds=", absl::ToInt64Seconds(options_.long_poll));
    request.timeout = options_.long_poll + kWatchGrace;
    request.first_line_only = true;
  }
  asked_ = request;
  return request;
}

Sight KubernetesMachine::Fail(absl::Status status) {
  version_.clear();
  return {.health = std::move(status), .next = backoff_.Next()};
}

Sight KubernetesMachine::Refused(int status) {
  if (asked_for_ == Asked::kWatch) {
    may_watch_ = false;
    return {.next = options_.interval};
  }
  if (object_ == Object::kNode && asked_for_ == Asked::kObject) {
    // Usual: reading nodes takes a role for the whole cluster.
    version_.clear();
    return {.notices = std::vector<Notice>{}, .next = options_.refused_retry};
  }
  return Fail(UnexpectedStatus(asked_, status));
}

Sight KubernetesMachine::Take(const Now& now, const absl::StatusOr<HttpMessage>& answer) {
  if (!answer.ok()) return Fail(AboutRequest(asked_, answer.status()));
  if (answer->status == 403) return Refused(answer->status);
  if (asked_for_ == Asked::kWatch && answer->status == 410) {
    version_.clear();  // too long ago for the server to remember
    return {.next = options_.interval};
  }
  if (answer->status != 200) return Fail(UnexpectedStatus(asked_, answer->status));
  if (asked_for_ == Asked::kWatch) return TakeWatch(now, answer->body);

  const Json object = ParseJson(answer->body);
  if (!object.is_object()) return Fail(Unintelligible(asked_, "the answer is no JSON object"));
  if (asked_for_ == Asked::kObject) return TakeObject(now, object, false);
  const std::string node = StringField(Field(object, "spec"), "nodeName");
  if (!IsKubernetesName(node)) return Fail(Unintelligible(asked_, "the pod has no nodeName"));
  LOCKSTEP_DCHECK(object_ == Object::kNode);
  node_ = node;
  return {};
}

Sight KubernetesMachine::TakeWatch(const Now& now, const std::string& line) {
  LOCKSTEP_DCHECK(asked_for_ == Asked::kWatch && may_watch_);
  // It ended without a change.
  if (line.empty()) return {.next = absl::ZeroDuration()};
  const Json event = ParseJson(line);
  const std::string type = StringField(event, "type");
  const Json& object = Field(event, "object");
  if (type.empty() || !object.is_object()) {
    return Fail(Unintelligible(asked_, "the answer is no event of a watch"));
  }
  if (type == "ERROR") {
    version_.clear();
    return {.next = options_.interval};
  }
  return TakeObject(now, object, type == "DELETED");
}

Sight KubernetesMachine::TakeObject(const Now& now, const Json& object, bool deleted) {
  const std::string version = StringField(Field(object, "metadata"), "resourceVersion");
  if (!IsVersion(version)) return Fail(Unintelligible(asked_, "the object has no version"));
  backoff_.Reset();
  Sight sight{.notices = object_ == Object::kPod ? ReadPod(now, object, deleted)
                                                 : ReadNode(object, deleted)};
  // A server that gives what we have seen already is not asked at once again.
  const bool news = version != version_;
  if (!may_watch_ || deleted || (asked_for_ == Asked::kWatch && !news)) {
    sight.next = options_.interval;
  }
  version_ = version;
  return sight;
}

std::vector<Notice> KubernetesMachine::ReadPod(const Now& now, const Json& pod,
                                               bool deleted) const {
  const std::string deletion = StringField(Field(pod, "metadata"), "deletionTimestamp");
  const std::optional<std::string> reason = Disruption(pod);
  if (deletion.empty() && !reason && !deleted) return {};
  Notice notice{
      .id = absl::StrCat("pod-", Presentable(StringField(Field(pod, "metadata"), "uid"))),
      .kind = NoticeKind::kPreempt,
      .text = deletion.empty() ? "this pod is going to be ended" : "this pod is being deleted"};
  if (reason) absl::StrAppend(&notice.text, ": ", Presentable(*reason));
  const Json& grace = Field(Field(pod, "spec"), "terminationGracePeriodSeconds");
  // The stamp is the end of the grace period already.
  if (const std::optional<absl::Time> at = ParseRfc3339(deletion)) {
    notice.death = SteadyAt(now, *at);
  } else if (deleted) {
    notice.lead = absl::ZeroDuration();
  } else if (grace.is_number_unsigned()) {
    notice.lead = absl::Seconds(grace.get<uint32_t>());
  }
  return {notice};
}

std::vector<Notice> KubernetesMachine::ReadNode(const Json& node, bool deleted) const {
  std::vector<Notice> notices;
  if (deleted) {
    notices.push_back({.id = "node-removed",
                       .kind = NoticeKind::kPreempt,
                       .text = "this pod's node was removed from the cluster"});
  }
  const Json& taints = Field(Field(node, "spec"), "taints");
  if (!taints.is_array()) return notices;
  for (const Taint& known : kTaints) {
    for (const Json& taint : taints) {
      if (StringField(taint, "key") != known.key) continue;
      Notice notice{.id = absl::StrCat("taint-", known.key),
                    .kind = known.kind,
                    .text = absl::StrCat("this pod's node has the taint ", known.key)};
      if (known.lead != absl::InfiniteDuration()) notice.lead = known.lead;
      notices.push_back(std::move(notice));
      break;  // the same key with another effect is the same news
    }
  }
  return notices;
}

}  // namespace lockstep::preempt

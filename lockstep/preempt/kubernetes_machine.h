// Kubernetes: our own pod, or the node it is on, as the API server has them. Pure.
//
// The bearer token is no business of the machine: the shell adds it.
#pragma once

#include <string>

#include "lockstep/preempt/http_machine.h"
#include "lockstep/preempt/json_fields.h"

namespace lockstep::preempt {

struct KubernetesOptions {
  std::string name_space = "default";
  std::string pod;
  std::string node;                              // empty: asked of the pod
  absl::Duration interval = absl::Seconds(5);    // after errors, and where watching is not allowed
  absl::Duration long_poll = absl::Seconds(60);  // one watch lasts that long at most
  absl::Duration refused_retry = absl::Minutes(5);  // of a node that we may not read
};

// Reads the object once, then watches it from that version on, one change a request: the API
// server of a thousand hosts is not to be polled by each of them every second. Where watching is
// forbidden it polls, and where the node is forbidden it goes without.
class KubernetesMachine final : public HttpMachine {
 public:
  enum class Object { kPod, kNode };
  // Of the pod the options name the name; of the node it is asked of the pod when they do not.
  KubernetesMachine(Object object, KubernetesOptions options)
      : object_(object),
        options_(std::move(options)),
        backoff_(options_.interval),
        node_(options_.node) {}

  // The object itself, until its version is known; then a watch from that version on.
  HttpRequest Ask(const Now& now) override;
  // 403 of a watch: polls from then on. 403 of the node: no notice, and asked again much later.
  // UNAVAILABLE: no answer, or another status. DATA_LOSS: the answer is no such object.
  Sight Take(const Now& now, const absl::StatusOr<HttpMessage>& answer) override;

 private:
  enum class Asked { kNodeName, kObject, kWatch };
  std::string PodPath() const;
  Sight Fail(absl::Status status);
  Sight Refused(int status);
  Sight TakeWatch(const Now& now, const std::string& line);
  Sight TakeObject(const Now& now, const Json& object, bool deleted);
  std::vector<Notice> ReadPod(const Now& now, const Json& pod, bool deleted) const;
  std::vector<Notice> ReadNode(const Json& node, bool deleted) const;

  const Object object_;
  const KubernetesOptions options_;
  Backoff backoff_;
  std::string node_;
  Asked asked_for_ = Asked::kObject;
  HttpRequest asked_;
  std::string version_;  // of the object as it was seen last; empty: read it anew
  bool may_watch_ = true;
};

// Whether it can be a part of a path and of a selector as it is.
bool IsKubernetesName(const std::string& name);

}  // namespace lockstep::preempt

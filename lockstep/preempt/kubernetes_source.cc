#include "lockstep/preempt/kubernetes_source.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lockstep/preempt/http_watch.h"
#include "lockstep/preempt/kubernetes_machine.h"
#include "lockstep/preempt/tls_exchange.h"

namespace lockstep::preempt {
namespace {

constexpr const char* kAccount = "/var/run/secrets/kubernetes.io/serviceaccount/";

std::string FirstOf(std::string a, std::string b) { return a.empty() ? b : a; }

std::string DefaultUrl(const Host& host) {
  const std::string name = host.Variable("KUBERNETES_SERVICE_HOST");
  const bool six = absl::StrContains(name, ":");
  return absl::StrCat("https://", six ? "[" : "", FirstOf(name, "kubernetes.default.svc"),
                      six ? "]" : "", ":",
                      FirstOf(host.Variable("KUBERNETES_SERVICE_PORT"), "443"));
}

absl::StatusOr<std::unique_ptr<Source>> MakeKubernetes(OptionReader& options, const Host& host) {
  const absl::StatusOr<BaseUrl> url = ParseBaseUrl(options.Text("url", DefaultUrl(host)));
  if (!url.ok()) options.Refuse("url", std::string(url.status().message()));
  const std::string account = absl::StrCat(host.root, kAccount);
  const TlsOptions tls = {.ca_file = options.Text("ca-file", account + "ca.crt"),
                          .token_file = options.Text("token-file", account + "token")};
  KubernetesOptions made;
  made.name_space =
      options.Text("namespace", FirstOf(ReadSmallFile(account + "namespace"), made.name_space));
  // A pod's host name is its own name, unless it shares the host's network.
  made.pod = options.Text("pod", FirstOf(host.Variable("POD_NAME"), host.Variable("HOSTNAME")));
  made.node = options.Text("node", host.Variable("NODE_NAME"));
  made.interval = options.Length("interval", made.interval, absl::Milliseconds(1));
  made.long_poll = options.Length("long-poll", made.long_poll, absl::Seconds(1));
  if (!IsKubernetesName(made.name_space)) options.Refuse("namespace", "is no name of a namespace");
  if (!IsKubernetesName(made.pod)) options.Refuse("pod", "is no name of a pod; set POD_NAME");
  if (!made.node.empty() && !IsKubernetesName(made.node)) {
    options.Refuse("node", "is no name of a node");
  }
  const bool watch_node = options.Switch("watch-node", true);
  if (absl::Status status = options.Finish(); !status.ok()) return status;

  std::vector<std::unique_ptr<Watch>> watches;
  using Object = KubernetesMachine::Object;
  for (const Object object : {Object::kPod, Object::kNode}) {
    if (object == Object::kNode && !watch_node) continue;
    // Without TLS there is no token either: `kubectl proxy`, or a fake.
    watches.push_back(std::make_unique<HttpWatch>(
        absl::StrCat(url->text(), object == Object::kPod ? " pod " : " node of pod ", made.pod),
        std::make_unique<KubernetesMachine>(object, made),
        url->tls ? TlsExchange(*url, tls) : PlainExchange(*url)));
  }
  return MakeWatchedSource(options.source(), std::move(watches));
}

}  // namespace

void AddKubernetes(SourceRegistry& registry) { registry.Add("kubernetes", MakeKubernetes); }

}  // namespace lockstep::preempt

#include "lockstep/testing/fake_clouds.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lockstep/preempt/json_fields.h"

namespace lockstep::testing {
namespace {

// The value of `name` in the query of `target`; empty when there is none.
std::string Parameter(const std::string& target, const std::string& name) {
  const size_t question = target.find('?');
  if (question == std::string::npos) return {};
  for (const absl::string_view part : absl::StrSplit(target.substr(question + 1), '&')) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (pair.first == name) return pair.second;
  }
  return {};
}

std::string PathOf(const std::string& target) { return target.substr(0, target.find('?')); }

std::string InHalfAMinute(const char* format) {
  return absl::FormatTime(format, absl::Now() + absl::Seconds(30), absl::UTCTimeZone());
}

}  // namespace

FakeGce::FakeGce() {
  values_ = {{"preempted", {"FALSE"}}, {"maintenance-event", {"NONE"}}};
  server_.Serve([this](const preempt::HttpMessage& request, FakeHttpServer::Lock& lock) {
    return Answer(request, lock);
  });
}

std::string FakeGce::spec() const {
  return absl::StrCat("gce:retry=1ms,absent-retry=1ms,url=", server_.url());
}

void FakeGce::Set(const std::string& key, const std::string& value) {
  server_.Change([&] {
    values_[key].text = value;
    ++values_[key].etag;
  });
}

std::string FakeGce::Answer(const preempt::HttpMessage& request, FakeHttpServer::Lock& lock) {
  if (request.header("metadata-flavor") != "Google" || !request.header("x-forwarded-for").empty()) {
    return WireAnswer(403, absl::StrCat("forbidden ", kSecret));
  }
  absl::string_view path = request.target;
  path = path.substr(0, path.find('?'));
  const preempt::HttpHeaders google = {{"Metadata-Flavor", "Google"}};
  if (!absl::ConsumePrefix(&path, "/computeMetadata/v1/instance/")) return WireAnswer(404, "");
  const std::string key(path);
  if (values_.count(key) == 0) return WireAnswer(404, "", google);
  if (Parameter(request.target, "wait_for_change") == "true") {
    int seconds = 0;
    if (!absl::SimpleAtoi(Parameter(request.target, "timeout_sec"), &seconds)) {
      return WireAnswer(400, "");
    }
    const std::string last = Parameter(request.target, "last_etag");
    server_.Wait(lock, absl::Seconds(seconds),
                 [&] { return absl::StrCat("e", values_[key].etag) != last; });
  }
  return WireAnswer(
      200, values_[key].text,
      {{"Metadata-Flavor", "Google"}, {"ETag", absl::StrCat("e", values_[key].etag)}});
}

FakeAws::FakeAws() {
  server_.Serve([this](const preempt::HttpMessage& request, FakeHttpServer::Lock&) {
    return Answer(request);
  });
}

std::string FakeAws::spec() const {
  return absl::StrCat("aws:interval=1ms,slow-interval=1ms,url=", server_.url());
}

void FakeAws::Give() {
  Set("spot/instance-action",
      preempt::Json{{"action", "terminate"}, {"time", InHalfAMinute("%Y-%m-%dT%H:%M:%SZ")}}.dump());
}

void FakeAws::Set(const std::string& page, const std::string& body) {
  server_.Change([&] { pages_[page] = body; });
}

void FakeAws::ExpireTokens() {
  server_.Change([&] { tokens_.clear(); });
}

void FakeAws::ForgetTokens() {
  server_.Change([&] { has_tokens_ = false; });
}

int FakeAws::tokens_given() {
  int given = 0;
  server_.Change([&] { given = tokens_given_; });
  return given;
}

std::string FakeAws::Answer(const preempt::HttpMessage& request) {
  if (request.target == "/latest/api/token") {
    const std::string ttl = request.header("x-aws-ec2-metadata-token-ttl-seconds");
    if (!has_tokens_ || request.method != "PUT") return WireAnswer(405, "");
    if (ttl.empty()) return WireAnswer(400, "");
    const std::string token = absl::StrCat("AQ", kSecret, ++tokens_given_, "==");
    tokens_.insert(token);
    return WireAnswer(200, token, {{"X-aws-ec2-metadata-token-ttl-seconds", ttl}});
  }
  const std::string token = request.header("x-aws-ec2-metadata-token");
  if (has_tokens_ && tokens_.count(token) == 0) {
    return WireAnswer(401, absl::StrCat("not good: ", token));
  }
  absl::string_view path = request.target;
  absl::ConsumePrefix(&path, "/latest/meta-data/");
  const auto page = pages_.find(std::string(path));
  if (page == pages_.end() || page->second.empty()) return WireAnswer(404, "");
  return WireAnswer(200, page->second);
}

FakeAzure::FakeAzure() {
  server_.Serve([this](const preempt::HttpMessage& request, FakeHttpServer::Lock&) {
    return Answer(request);
  });
}

std::string FakeAzure::spec() const {
  return absl::StrCat("azure:interval=1ms,acknowledge=yes,url=", server_.url());
}

void FakeAzure::Give() {
  server_.Change([&] {
    event_ = "Scheduled";
    ++incarnation_;
  });
}

void FakeAzure::Withdraw() {
  server_.Change([&] {
    event_.clear();
    ++incarnation_;
  });
}

std::vector<std::string> FakeAzure::started() {
  std::vector<std::string> started;
  server_.Change([&] { started = started_; });
  return started;
}

std::string FakeAzure::Answer(const preempt::HttpMessage& request) {
  if (request.header("metadata") != "true") return WireAnswer(400, kSecret);
  if (Parameter(request.target, "api-version").empty()) return WireAnswer(400, "");
  const std::string path = PathOf(request.target);
  if (path == "/metadata/instance/compute/name") return WireAnswer(200, "gpu_7");
  if (path != "/metadata/scheduledevents") return WireAnswer(404, "");
  if (request.method == "POST") {
    const preempt::Json json = preempt::ParseJson(request.body);
    for (const preempt::Json& start : preempt::Field(json, "StartRequests")) {
      started_.push_back(preempt::StringField(start, "EventId"));
    }
    event_ = "Started";
    ++incarnation_;
    return WireAnswer(200, "");
  }
  preempt::Json events = preempt::Json::array();
  // Of another machine of the scale set, always.
  events.push_back({{"EventId", "other"},
                    {"EventType", "Preempt"},
                    {"Resources", {"gpu_1"}},
                    {"EventStatus", "Started"},
                    {"NotBefore", ""}});
  if (!event_.empty()) {
    const std::string at = event_ == "Started" ? "" : InHalfAMinute("%a, %d %b %Y %H:%M:%S GMT");
    events.push_back({{"EventId", "E-1"},
                      {"EventType", "Preempt"},
                      {"Resources", {"gpu_7"}},
                      {"EventStatus", event_},
                      {"NotBefore", at},
                      {"Description", "spot"}});
  }
  return WireAnswer(
      200, preempt::Json{{"DocumentIncarnation", incarnation_}, {"Events", events}}.dump());
}

FakeKubernetes::FakeKubernetes() {
  server_.Serve([this](const preempt::HttpMessage& request, FakeHttpServer::Lock& lock) {
    return Answer(request, lock);
  });
}

std::string FakeKubernetes::spec() const {
  return absl::StrCat("kubernetes:interval=1ms,namespace=ml,pod=train-3,url=", server_.url());
}

void FakeKubernetes::Give() {
  server_.Change([&] {
    reason_ = "EvictionByEvictionAPI";
    ++version_;
  });
}

void FakeKubernetes::Withdraw() {
  server_.Change([&] {
    reason_.clear();
    ++version_;
  });
}

void FakeKubernetes::Taint(const std::string& key) {
  server_.Change([&] {
    taint_ = key;
    ++version_;
  });
}

void FakeKubernetes::ForbidNodes() {
  server_.Change([&] { nodes_allowed_ = false; });
}

void FakeKubernetes::ForgetVersions() {
  server_.Change([&] {
    forgotten_ = true;
    ++version_;
  });
}

std::string FakeKubernetes::Object(bool node) const {
  preempt::Json json = {
      {"metadata", {{"uid", "u-1"}, {"resourceVersion", std::to_string(version_)}}}};
  if (node) {
    if (!taint_.empty()) json["spec"]["taints"] = preempt::Json::array({{{"key", taint_}}});
    return json.dump();
  }
  json["spec"] = {{"nodeName", "node-9"}, {"terminationGracePeriodSeconds", 30}};
  if (!reason_.empty()) {
    json["status"]["conditions"] = preempt::Json::array(
        {{{"type", "DisruptionTarget"}, {"status", "True"}, {"reason", reason_}}});
  }
  return json.dump();
}

std::string FakeKubernetes::Answer(const preempt::HttpMessage& request,
                                   FakeHttpServer::Lock& lock) {
  const std::string path = PathOf(request.target);
  const bool node = absl::StartsWith(path, "/api/v1/nodes");
  if (node && !nodes_allowed_) return WireAnswer(403, kSecret);
  if (Parameter(request.target, "watch").empty()) {
    const bool known =
        path == "/api/v1/nodes/node-9" || path == "/api/v1/namespaces/ml/pods/train-3";
    return known ? WireAnswer(200, Object(node)) : WireAnswer(404, "");
  }
  const std::string selector = absl::StrCat("metadata.name%3D", node ? "node-9" : "train-3");
  if (Parameter(request.target, "fieldSelector") != selector) return WireAnswer(400, "");
  const std::string since = Parameter(request.target, "resourceVersion");
  const bool changed = server_.Wait(
      lock, absl::Seconds(60), [&] { return std::to_string(version_) != since || forgotten_; });
  if (forgotten_) {
    forgotten_ = false;
    return WireAnswer(410, "");
  }
  const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  if (!changed) return head + "0\r\n\r\n";
  // The stream stays open in the real one; who wants one line does not wait for its end.
  const std::string line = absl::StrCat(R"({"type":"MODIFIED","object":)", Object(node), "}\n");
  return absl::StrCat(head, absl::Hex(line.size()), "\r\n", line, "\r\n");
}

}  // namespace lockstep::testing

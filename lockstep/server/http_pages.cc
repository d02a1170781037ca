#include "lockstep/server/http_pages.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/observe/status_text.h"
#include "lockstep/observe/tables.h"
#include "lockstep/observe/why.h"
#include "lockstep/server/metrics.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/json.h"

namespace lockstep::server {
namespace {

using wire::native::JobStatus;
using wire::native::Json;
using wire::native::StatusReply;

using OfAll = std::string (*)(const StatusReply&);
using OfOne = std::string (*)(const JobStatus&);

HttpAsk AskForEventsOf(const HttpTarget& target) {
  AskForEvents ask{.request = {.job = target.parameter("job")}};
  const std::string after = target.parameter("after");
  const std::string log = target.parameter("log");
  if ((!after.empty() && !absl::SimpleAtoi(after, &ask.request.after)) ||
      (!log.empty() && !absl::SimpleAtoi(log, &ask.request.log))) {
    return HttpRefusal(400, "invalid_argument", "`after` and `log` must be numbers");
  }
  return ask;
}

}  // namespace

HttpAsk FindPage(const HttpTarget& target) {
  static const auto* const kOfAll = new std::map<std::string, OfAll>{
      {"/v1/status.json", observe::StatusJson}, {"/v1/jobs.json", observe::JobsJson}};
  static const auto* const kOfOne = new std::map<std::string, OfOne>{
      {"/v1/members.json", observe::MembersJson},
      {"/v1/barriers.json", observe::BarriersJson},
      {"/v1/why.json", [](const JobStatus& job) { return observe::WhyJson(job); }}};

  const std::string job = target.parameter("job");
  if (target.path == "/healthz") return AskForLife{};
  if (target.path == "/readyz") return AskForReadiness{};
  if (target.path == "/metrics") {
    return AskForView{.durable = false, .page = [](const ServerView& view) {
                        return HttpAnswer{.type = "text/plain; version=0.0.4; charset=utf-8",
                                          .body = MetricsText(view)};
                      }};
  }
  if (target.path == "/v1/events.json") return AskForEventsOf(target);
  if (const auto page = kOfAll->find(target.path); page != kOfAll->end()) {
    return AskForView{.job = job, .page = [text = page->second](const ServerView& view) {
                        return HttpAnswer{.body = text(view.status)};
                      }};
  }
  const auto page = kOfOne->find(target.path);
  if (page == kOfOne->end()) {
    return HttpRefusal(404, "unknown_page",
                       "no such page; try /healthz, /readyz, /metrics or /v1/status.json");
  }
  if (job.empty()) return HttpRefusal(400, "invalid_argument", "name a job: ?job=NAME");
  return AskForView{.job = job, .page = [text = page->second](const ServerView& view) {
                      return HttpAnswer{.body = text(view.status.jobs.at(0))};
                    }};
}

HttpAnswer ReadyPage(const std::vector<std::string>& not_ready) {
  if (not_ready.empty()) return TextPage(200, "ready\n");
  return TextPage(503, absl::StrCat("not ready: ", absl::StrJoin(not_ready, "; "), "\n"));
}

HttpAnswer EventsPage(const wire::native::WatchEventsReply& reply) {
  return {.body = ToJson(reply).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"};
}

HttpAnswer RefusalOf(const absl::Status& status) {
  const int code = absl::IsNotFound(status) ? 404 : absl::IsInvalidArgument(status) ? 400 : 503;
  return HttpRefusal(code, wire::native::ReasonOf(status),
                     std::string_view(status.message().data(), status.message().size()));
}

HttpAnswer TextPage(int status, std::string text) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = std::move(text)};
}

}  // namespace lockstep::server

#include "lockstep/server/http_pages.h"

#include <map>
#include <type_traits>
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
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/json.h"
#include "lockstep/wire/native/kinds.h"

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

int CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    default:
      return 503;
  }
}

template <class Message>
absl::Status MayAsk(const link::Rights& rights, const Message& message) {
  return link::CheckRights(rights, wire::native::KindOf<Message>::kKind,
                           wire::native::Encode(message));
}

absl::Status Check(const link::Rights& rights, const AskForView& ask) {
  wire::native::StatusRequest request;
  if (!ask.job.empty()) request.job = ask.job;
  absl::Status status = MayAsk(rights, request);
  // What is about all jobs tells of the data service, too, which belongs to none.
  if (status.ok() && ask.job.empty()) status = MayAsk(rights, wire::native::DataStatus());
  return status;
}
absl::Status Check(const link::Rights& rights, const AskForEvents& ask) {
  return MayAsk(rights, ask.request);
}
// The others say nothing about jobs.
template <class Other>
absl::Status Check(const link::Rights&, const Other&) {
  return absl::OkStatus();
}

// The same whatever was asked, so that nothing is learned from it.
absl::Status NotPermitted() {
  return wire::native::WithReason(
      absl::PermissionDeniedError(
          "the token does not allow this page: a token for one job sees the pages of that job only "
          "(add ?job=NAME), and its role must be one that may look, such as observe (`lockstep "
          "token create --role observe`)"),
      "not_permitted");
}

}  // namespace

absl::Status CheckRights(const link::Rights& rights, const HttpAsk& ask) {
  const absl::Status status = std::visit([&](const auto& one) { return Check(rights, one); }, ask);
  return status.ok() ? status : NotPermitted();
}

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
    return AskForView{
        .job = job, .durable = false, .page = [of_one = !job.empty()](const ServerView& view) {
          return HttpAnswer{.type = "text/plain; version=0.0.4; charset=utf-8",
                            .body = of_one ? JobMetricsText(view) : MetricsText(view)};
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

HttpAnswer ReadyPage(const std::vector<std::string>& not_ready, bool reasons) {
  if (not_ready.empty()) return TextPage(200, "ready\n");
  if (!reasons) return TextPage(503, "not ready\n");
  return TextPage(503, absl::StrCat("not ready: ", absl::StrJoin(not_ready, "; "), "\n"));
}

HttpAnswer EventsPage(const wire::native::WatchEventsReply& reply) {
  return {.body = ToJson(reply).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"};
}

HttpAnswer RefusalOf(const absl::Status& status) {
  const std::string reason = wire::native::ReasonOf(status);
  HttpAnswer answer = HttpRefusal(
      CodeOf(status), reason, std::string_view(status.message().data(), status.message().size()));
  if (answer.status == 401) {
    // RFC 6750: a caller that showed nothing is not told of an error.
    answer.challenge = reason == "token_required"
                           ? R"(Bearer realm="lockstep")"
                           : R"(Bearer realm="lockstep", error="invalid_token")";
  } else if (answer.status == 403) {
    answer.challenge = R"(Bearer realm="lockstep", error="insufficient_scope")";
  }
  return answer;
}

HttpAnswer TextPage(int status, std::string text) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = std::move(text)};
}

}  // namespace lockstep::server

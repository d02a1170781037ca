#include "lockstep/preempt/gce_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "lockstep/base/check.h"
#include "lockstep/preempt/json_fields.h"

namespace lockstep::preempt {
namespace {

// What the connection may take beyond what the server was told to wait.
constexpr absl::Duration kGrace = absl::Seconds(10);
// An answer that comes sooner although nothing changed comes from a server that does not wait.
constexpr absl::Duration kTooSoon = absl::Milliseconds(500);

const char* PathOf(GceMachine::Key key) {
  switch (key) {
    case GceMachine::Key::kPreempted:
      return "/computeMetadata/v1/instance/preempted";
    case GceMachine::Key::kMaintenanceEvent:
      return "/computeMetadata/v1/instance/maintenance-event";
    case GceMachine::Key::kUpcomingMaintenance:
      break;
  }
  return "/computeMetadata/v1/instance/upcoming-maintenance";
}

bool IsEtag(const std::string& text) {
  return !text.empty() && text.size() <= 64 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
         });
}

// The keys are documented as windowStartTime, and seen as window_start_time.
Json WithPlainKeys(const Json& object) {
  Json plain = Json::object();
  for (const auto& [key, value] : object.items()) {
    std::string name;
    for (const char c : key) {
      if (c != '_' && c != '-') name += absl::ascii_tolower(static_cast<unsigned char>(c));
    }
    plain[name] = value;
  }
  return plain;
}

}  // namespace

HttpRequest GceMachine::Ask(const Now& now) {
  HttpRequest request{.target = PathOf(key_), .headers = {{"Metadata-Flavor", "Google"}}};
  std::string query = key_ == Key::kUpcomingMaintenance ? "?alt=json&recursive=true" : "?alt=text";
  if (!etag_.empty()) {
    absl::StrAppend(&query, "&wait_for_change=true&last_etag=", etag_,
                    "&timeout_sec=", absl::ToInt64Seconds(options_.long_poll));
    request.timeout = options_.long_poll + kGrace;
  }
  request.target += query;
  asked_ = request;
  asked_at_ = now.steady;
  return request;
}

Sight GceMachine::Fail(absl::Status status) {
  etag_.clear();  // the next is a plain GET: what changed meanwhile is not waited for
  return {.health = std::move(status), .next = backoff_.Next()};
}

Sight GceMachine::Take(const Now& now, const absl::StatusOr<HttpMessage>& answer) {
  LOCKSTEP_DCHECK(asked_at_ <= now.steady);
  if (!answer.ok()) return Fail(AboutRequest(asked_, answer.status()));
  if (answer->status != 200 && answer->status != 404) {
    return Fail(UnexpectedStatus(asked_, answer->status));
  }
  if (answer->header("metadata-flavor") != "Google") {
    return Fail(Unintelligible(asked_, "who answered is no metadata server of Google's"));
  }
  if (answer->status == 404) {
    etag_.clear();
    backoff_.Reset();
    return {.notices = std::vector<Notice>{}, .next = options_.absent_retry};
  }
  absl::StatusOr<std::vector<Notice>> notices =
      Read(now, std::string(absl::StripAsciiWhitespace(answer->body)));
  if (!notices.ok()) return Fail(notices.status());

  backoff_.Reset();
  const bool waited = !etag_.empty();
  const std::string etag = answer->header("etag");
  const bool changed = etag != etag_;
  etag_ = IsEtag(etag) ? etag : "";
  Sight sight{.notices = *std::move(notices)};
  const bool too_soon = waited && !changed && now.steady - asked_at_ < kTooSoon;
  if (etag_.empty() || too_soon) sight.next = options_.retry;
  return sight;
}

absl::StatusOr<std::vector<Notice>> GceMachine::Read(const Now& now,
                                                     const std::string& value) const {
  std::vector<Notice> notices;
  switch (key_) {
    case Key::kPreempted:
      if (value == "TRUE") {
        notices.push_back({.id = "preempted",
                           .kind = NoticeKind::kPreempt,
                           .lead = options_.preempt_lead,
                           .text = "this machine is preempted"});
        return notices;
      }
      if (value == "FALSE") return notices;
      break;
    case Key::kMaintenanceEvent:
      if (value == "TERMINATE_ON_HOST_MAINTENANCE") {
        notices.push_back({.id = "maintenance-event",
                           .kind = NoticeKind::kMaintenance,
                           .lead = options_.maintenance_lead,
                           .text = "this machine is stopped for maintenance of its host"});
        return notices;
      }
      if (value == "MIGRATE_ON_HOST_MAINTENANCE") {
        if (options_.migration_is_notice) {
          notices.push_back({.id = "maintenance-event",
                             .kind = NoticeKind::kMaintenance,
                             .lead = options_.maintenance_lead,
                             .text = "this machine is moved to another host"});
        }
        return notices;
      }
      if (value == "NONE") return notices;
      break;
    case Key::kUpcomingMaintenance:
      return ReadUpcoming(now, value);
  }
  return Unintelligible(asked_, "the value is none that this key can have");
}

absl::StatusOr<std::vector<Notice>> GceMachine::ReadUpcoming(const Now& now,
                                                             const std::string& value) const {
  const Json json = ParseJson(value);
  if (!json.is_object()) return Unintelligible(asked_, "the answer is no JSON object");
  const Json plain = WithPlainKeys(json);
  std::vector<Notice> notices;
  const std::string status = StringField(plain, "maintenancestatus");
  if (status != "PENDING" && status != "ONGOING") return notices;

  const std::string begin = StringField(plain, "windowstarttime");
  Notice notice{
      .id = absl::StrCat("upcoming-", HashOf(absl::StrCat(StringField(plain, "type"), begin))),
      .kind = NoticeKind::kMaintenance,
      .text = Presentable(
          absl::StrCat("maintenance of the host is planned (", StringField(plain, "type"), ")"))};
  if (status == "ONGOING") {
    notice.lead = absl::ZeroDuration();
    notice.text = "maintenance of the host has begun";
  } else if (const std::optional<absl::Time> at = ParseRfc3339(begin)) {
    notice.death = SteadyAt(now, *at);
  } else {
    return Unintelligible(asked_, "the window has no time at which it starts");
  }
  notices.push_back(std::move(notice));
  return notices;
}

}  // namespace lockstep::preempt

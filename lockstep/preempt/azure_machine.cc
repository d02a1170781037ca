#include "lockstep/preempt/azure_machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "lockstep/base/check.h"

namespace lockstep::preempt {
namespace {

constexpr const char* kNamePath =
    "/metadata/instance/compute/name?api-version=2021-02-01&format=text";
constexpr const char* kEventsPath = "/metadata/scheduledevents?api-version=2020-07-01";
constexpr absl::Duration kFirstTimeout = absl::Seconds(130);
constexpr absl::Duration kTimeout = absl::Seconds(10);
static_assert(kTimeout < kFirstTimeout, "the first answer switches the feature on");
constexpr size_t kStartsMax = 16;

NoticeKind KindOf(const std::string& type) {
  return type == "Preempt" || type == "Terminate" ? NoticeKind::kPreempt : NoticeKind::kMaintenance;
}

}  // namespace

HttpRequest AzureMachine::Ask(const Now&) {
  HttpRequest request{.headers = {{"Metadata", "true"}}, .timeout = kTimeout};
  if (!starts_.empty()) {
    asked_for_ = Asked::kStart;
    request.method = "POST";
    request.target = kEventsPath;
    request.headers.emplace_back("Content-Type", "application/json");
    request.body = Json{{"StartRequests", Json::array({Json{{"EventId", starts_.front()}}})}}.dump(
        -1, ' ', true);
  } else if (machine_.empty()) {
    asked_for_ = Asked::kName;
    request.target = kNamePath;
  } else {
    asked_for_ = Asked::kEvents;
    request.target = kEventsPath;
    if (!seen_) request.timeout = kFirstTimeout;
  }
  asked_ = request;
  return request;
}

Sight AzureMachine::Fail(absl::Status status) {
  return {.health = std::move(status), .next = backoff_.Next()};
}

Sight AzureMachine::Take(const Now& now, const absl::StatusOr<HttpMessage>& answer) {
  if (asked_for_ == Asked::kStart) return TakeStart(answer);
  if (!answer.ok()) return Fail(AboutRequest(asked_, answer.status()));
  if (answer->status != 200) return Fail(UnexpectedStatus(asked_, answer->status));
  if (asked_for_ == Asked::kName) {
    const std::string name = Presentable(absl::StripAsciiWhitespace(answer->body));
    if (name.empty() || absl::StrContains(name, " ")) {
      return Fail(Unintelligible(asked_, "the answer is no name of a machine"));
    }
    machine_ = name;
    backoff_.Reset();
    return {};
  }

  const Json json = ParseJson(answer->body);
  const Json& incarnation = Field(json, "DocumentIncarnation");
  if (!incarnation.is_number_integer()) {
    return Fail(Unintelligible(asked_, "the answer has no DocumentIncarnation"));
  }
  if (!seen_ || incarnation.get<int64_t>() != incarnation_) {
    absl::StatusOr<std::vector<Notice>> notices = Read(now, json);
    if (!notices.ok()) return Fail(notices.status());
    notices_ = *std::move(notices);
    incarnation_ = incarnation.get<int64_t>();
    seen_ = true;
  }
  backoff_.Reset();
  return {.notices = notices_, .next = options_.interval};
}

Sight AzureMachine::TakeStart(const absl::StatusOr<HttpMessage>& answer) {
  LOCKSTEP_DCHECK(!starts_.empty());  // only `TakeStart` takes one away
  if (answer.ok() && answer->status == 200) {
    starts_.pop_front();
    start_failures_ = 0;
    return {};
  }
  // It begins at its time anyway; a few tries, and looking goes on.
  if (++start_failures_ >= kStartTries) {
    starts_.pop_front();
    start_failures_ = 0;
  }
  LOCKSTEP_DCHECK(start_failures_ < kStartTries);
  return Fail(answer.ok() ? UnexpectedStatus(asked_, answer->status)
                          : AboutRequest(asked_, answer.status()));
}

bool AzureMachine::Acknowledge(const std::string& id) {
  const bool stands = std::any_of(notices_.begin(), notices_.end(),
                                  [&](const Notice& notice) { return notice.id == id; });
  const bool queued = std::find(starts_.begin(), starts_.end(), id) != starts_.end();
  if (!options_.acknowledge || !stands || queued || starts_.size() >= kStartsMax) return false;
  starts_.push_back(id);
  LOCKSTEP_DCHECK(starts_.size() <= kStartsMax);
  return true;
}

bool AzureMachine::IsOurs(const Json& event) const {
  const Json& resources = Field(event, "Resources");
  if (!resources.is_array()) return false;
  return std::any_of(resources.begin(), resources.end(), [this](const Json& name) {
    return name.is_string() && absl::EqualsIgnoreCase(name.get<std::string>(), machine_);
  });
}

absl::StatusOr<std::vector<Notice>> AzureMachine::Read(const Now& now, const Json& json) const {
  LOCKSTEP_DCHECK(!machine_.empty());  // events are asked for by name
  const Json& events = Field(json, "Events");
  if (!events.is_array()) return Unintelligible(asked_, "the answer has no Events");
  std::vector<Notice> notices;
  for (const Json& event : events) {
    const std::string type = StringField(event, "EventType");
    const std::string id = StringField(event, "EventId");
    if (id.empty() || type.empty() || !IsOurs(event)) continue;
    if (type == "Freeze" && !options_.freeze_is_notice) continue;
    Notice notice{.id = Presentable(id),
                  .kind = KindOf(type),
                  .text = Presentable(absl::StrCat(type, ": ", StringField(event, "Description")))};
    absl::Time at;
    std::string error;
    if (StringField(event, "EventStatus") == "Started") {
      notice.lead = absl::ZeroDuration();
    } else if (absl::ParseTime("%a, %d %b %Y %H:%M:%S GMT", StringField(event, "NotBefore"), &at,
                               &error)) {
      notice.death = SteadyAt(now, at);
    }
    notices.push_back(std::move(notice));
  }
  return notices;
}

}  // namespace lockstep::preempt

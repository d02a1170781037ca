#include "lockstep/preempt/aws_machine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "lockstep/base/check.h"
#include "lockstep/preempt/json_fields.h"

namespace lockstep::preempt {
namespace {

constexpr const char* kPaths[] = {"/latest/meta-data/spot/instance-action",
                                  "/latest/meta-data/events/recommendations/rebalance",
                                  "/latest/meta-data/events/maintenance/scheduled"};
// A token is renewed when it is about to expire, so that no page meets one that just did.
constexpr absl::Duration kTokenMargin = absl::Seconds(15);
constexpr absl::Duration kVersion1For = absl::Minutes(5);

bool IsToken(const std::string& text) {
  return !text.empty() && text.size() <= 1024 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

AwsMachine::Page AwsMachine::Earliest() const {
  size_t earliest = kSpot;
  for (size_t page = kRebalance; page < kPages; ++page) {
    if (looks_[page].due < looks_[earliest].due) earliest = page;
  }
  return static_cast<Page>(earliest);
}

HttpRequest AwsMachine::Ask(const Now& now) {
  if (!token_.empty() && token_until_ - now.steady < kTokenMargin) token_.clear();
  static_assert(std::size(kPaths) == kPages, "a path for each page");
  page_ = Earliest();
  asked_for_token_ = token_.empty() && now.steady >= version_1_until_;
  if (asked_for_token_) {
    asked_ = {.method = "PUT",
              .target = "/latest/api/token",
              .headers = {{"X-aws-ec2-metadata-token-ttl-seconds",
                           absl::StrCat(absl::ToInt64Seconds(options_.token_ttl))}}};
    return asked_;
  }
  asked_ = {.target = kPaths[page_]};
  HttpRequest request = asked_;
  if (!token_.empty()) request.headers.emplace_back("X-aws-ec2-metadata-token", token_);
  return request;
}

Sight AwsMachine::Take(const Now& now, const absl::StatusOr<HttpMessage>& answer) {
  return asked_for_token_ ? TakeToken(now, answer) : TakePage(now, answer);
}

Sight AwsMachine::TakeToken(const Now& now, const absl::StatusOr<HttpMessage>& answer) {
  LOCKSTEP_DCHECK(token_.empty());  // else none was asked for
  const std::string token =
      answer.ok() ? std::string(absl::StripAsciiWhitespace(answer->body)) : "";
  if (answer.ok() && answer->status == 200 && IsToken(token)) {
    token_ = token;
    token_until_ = now.steady + options_.token_ttl;
    token_status_ = absl::OkStatus();
    return Summary(absl::ZeroDuration());
  }
  token_status_ = !answer.ok()            ? AboutRequest(asked_, answer.status())
                  : answer->status != 200 ? UnexpectedStatus(asked_, answer->status)
                                          : Unintelligible(asked_, "the answer is no token");
  if (options_.version_1_allowed) {
    // Older machines have no tokens, and from within a container their answer may not arrive.
    version_1_until_ = now.steady + kVersion1For;
    return Summary(absl::ZeroDuration());
  }
  return Summary(backoff_.Next());
}

Sight AwsMachine::TakePage(const Now& now, const absl::StatusOr<HttpMessage>& answer) {
  LOCKSTEP_DCHECK(page_ < kPages);
  Look& look = looks_[page_];
  if (answer.ok() && answer->status == 401) {
    const bool again = !token_.empty() && !token_renewed_;
    token_.clear();
    version_1_until_ = Time();
    if (again) {
      token_renewed_ = true;
      return Summary(absl::ZeroDuration());
    }
  }
  token_renewed_ = false;
  absl::StatusOr<std::vector<Notice>> notices =
      answer.ok() ? Read(now, *answer) : AboutRequest(asked_, answer.status());
  look.status = notices.status();
  if (!notices.ok()) {
    // The others are asked all the same, each in its turn.
    look.due = now.steady + backoff_.Next();
  } else {
    backoff_.Reset();
    look.notices = *std::move(notices);
    look.due = now.steady + (page_ == kSpot ? options_.interval : options_.slow_interval);
  }
  return Summary(std::max(absl::ZeroDuration(), looks_[Earliest()].due - now.steady));
}

Sight AwsMachine::Summary(absl::Duration next) const {
  LOCKSTEP_DCHECK(next >= absl::ZeroDuration());
  Sight sight{.notices = std::vector<Notice>{}, .next = next};
  // Without a token and without version 1 nothing is seen at all.
  if (!options_.version_1_allowed) sight.health = token_status_;
  for (const Look& look : looks_) {
    if (sight.health.ok()) sight.health = look.status;
    sight.notices->insert(sight.notices->end(), look.notices.begin(), look.notices.end());
  }
  return sight;
}

absl::StatusOr<std::vector<Notice>> AwsMachine::Read(const Now& now,
                                                     const HttpMessage& answer) const {
  if (answer.status == 404) return std::vector<Notice>{};
  if (answer.status != 200) return UnexpectedStatus(asked_, answer.status);
  switch (page_) {
    case kSpot:
      return ReadSpot(now, answer.body);
    case kScheduled:
      return ReadScheduled(now, answer.body);
    default:
      break;
  }
  const std::string at = StringField(ParseJson(answer.body), "noticeTime");
  if (!ParseRfc3339(at)) return Unintelligible(asked_, "the answer has no noticeTime");
  return std::vector<Notice>{{.id = absl::StrCat("rebalance-", HashOf(at)),
                              .kind = NoticeKind::kRebalance,
                              .text = "the cloud recommends to leave this machine"}};
}

absl::StatusOr<std::vector<Notice>> AwsMachine::ReadSpot(const Now& now,
                                                         const std::string& body) const {
  const Json json = ParseJson(body);
  const std::string action = StringField(json, "action");
  const std::optional<absl::Time> at = Rfc3339Field(json, "time");
  if (action.empty() || !at) return Unintelligible(asked_, "the answer has no action and time");
  return std::vector<Notice>{
      {.id = absl::StrCat("spot-", HashOf(absl::StrCat(action, StringField(json, "time")))),
       .kind = NoticeKind::kPreempt,
       .death = SteadyAt(now, *at),
       .text = Presentable(absl::StrCat("this spot machine is taken away: ", action))}};
}

absl::StatusOr<std::vector<Notice>> AwsMachine::ReadScheduled(const Now& now,
                                                              const std::string& body) const {
  const Json json = ParseJson(body);
  if (!json.is_array()) return Unintelligible(asked_, "the answer is no JSON array");
  std::vector<Notice> notices;
  for (const Json& event : json) {
    if (StringField(event, "State") != "active") continue;
    const std::string text =
        absl::StrCat(StringField(event, "Code"), ": ", StringField(event, "Description"));
    Notice notice{.id = Presentable(StringField(event, "EventId")),
                  .kind = NoticeKind::kMaintenance,
                  .text = Presentable(text)};
    if (notice.id.empty()) notice.id = HashOf(event.dump(-1, ' ', true));
    absl::Time at;
    std::string error;
    if (absl::ParseTime("%d %b %Y %H:%M:%S GMT", StringField(event, "NotBefore"), &at, &error)) {
      notice.death = SteadyAt(now, at);
    }
    notices.push_back(std::move(notice));
  }
  return notices;
}

}  // namespace lockstep::preempt

#include "lockstep/preempt/payload.h"

#include <cmath>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/preempt/json_fields.h"

namespace lockstep::preempt {
namespace {

constexpr size_t kIdBytesMax = 128;
constexpr double kSecondsMax = 10 * 365 * 86400.0;

std::string IdOr(std::string own, absl::string_view given, absl::string_view content) {
  own = Presentable(own).substr(0, kIdBytesMax);
  if (!own.empty()) return own;
  return given.empty() ? HashOf(content) : std::string(given);
}

// A duration as a text or a number of seconds.
std::optional<absl::Duration> LeadOf(const Json& value) {
  if (value.is_string()) return ParseLead(value.get<std::string>());
  if (!value.is_number()) return std::nullopt;
  const double seconds = value.get<double>();
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kSecondsMax) return std::nullopt;
  return absl::Seconds(seconds);
}

absl::StatusOr<Notice> NoticeOf(const Now& now, const Json& object, absl::string_view id) {
  if (!object.is_object()) return absl::InvalidArgumentError("a notice in JSON is an object");
  Notice notice{.id = IdOr(StringField(object, "id"), id, object.dump(-1, ' ', true)),
                .text = Presentable(StringField(object, "text"))};
  if (const std::string kind = StringField(object, "kind"); !kind.empty()) {
    const std::optional<NoticeKind> known = FindNoticeKind(kind);
    if (!known) {
      return absl::InvalidArgumentError(
          "`kind` is none of preempt, maintenance, rebalance, time-limit, operator, health");
    }
    notice.kind = *known;
  }
  if (const auto left = object.find("left"); left != object.end() && !left->is_null()) {
    notice.lead = LeadOf(*left);
    if (!notice.lead) return absl::InvalidArgumentError("`left` is no duration: \"30s\", 30");
  }
  if (const auto at = object.find("at"); at != object.end() && !at->is_null()) {
    const std::optional<absl::Time> wall = Rfc3339Field(object, "at");
    if (!wall) return absl::InvalidArgumentError("`at` is no RFC 3339 time");
    notice.lead.reset();
    notice.death = SteadyAt(now, *wall);
  }
  LOCKSTEP_DCHECK(!notice.lead || !notice.death);  // a moment or a time until it
  LOCKSTEP_DCHECK(!notice.id.empty());
  return notice;
}

}  // namespace

std::optional<absl::Duration> ParseLead(absl::string_view text) {
  absl::Duration lead;
  if (!absl::ParseDuration(std::string(text), &lead) || lead < absl::ZeroDuration() ||
      lead > absl::Seconds(kSecondsMax)) {
    return std::nullopt;
  }
  return lead;
}

absl::StatusOr<std::vector<Notice>> ParsePayload(const Now& now, absl::string_view text,
                                                 absl::string_view id) {
  if (text.size() > kPayloadBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", text.size(), " bytes; ", kPayloadBytesMax, " are allowed"));
  }
  text = absl::StripAsciiWhitespace(text);
  if (text == "null" || text == "false") return std::vector<Notice>{};
  if (text.empty() || (text[0] != '{' && text[0] != '[')) {
    Notice notice{.id = IdOr("", id, text)};
    notice.lead = ParseLead(text);
    if (!notice.lead && text != "true") notice.text = Presentable(text);
    return std::vector<Notice>{notice};
  }

  const Json json = ParseJson(text);
  if (json.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat("its ", text.size(), " bytes are no JSON"));
  }
  if (json.empty()) return std::vector<Notice>{};
  std::vector<Notice> notices;
  const bool several = json.is_array() && json.size() > 1;
  for (const Json& one : json.is_array() ? json : Json::array({json})) {
    absl::StatusOr<Notice> notice = NoticeOf(now, one, several ? absl::string_view() : id);
    if (!notice.ok()) return notice.status();
    notices.push_back(*std::move(notice));
  }
  return notices;
}

}  // namespace lockstep::preempt

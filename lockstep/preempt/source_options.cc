#include "lockstep/preempt/source_options.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/preempt/payload.h"

namespace lockstep::preempt {

absl::StatusOr<SourceSpec> ParseSourceSpec(absl::string_view text) {
  SourceSpec spec;
  const size_t colon = text.find(':');
  spec.name = std::string(text.substr(0, colon));
  if (spec.name.empty()) {
    return absl::InvalidArgumentError(
        "a source of notices has no name; write NAME or "
        "NAME:KEY=VALUE,KEY=VALUE");
  }
  std::vector<std::string> parts;
  if (colon != absl::string_view::npos) {
    parts.emplace_back();
    for (size_t i = colon + 1; i < text.size(); ++i) {
      if (text[i] == '\\' && i + 1 < text.size()) {
        parts.back() += text[++i];
      } else if (text[i] == ',') {
        parts.emplace_back();
      } else {
        parts.back() += text[i];
      }
    }
  }
  for (const std::string& part : parts) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(absl::StrCat("source '", spec.name,
                                                     "': its options are written KEY=VALUE, with "
                                                     "a comma between them"));
    }
    const std::string key = part.substr(0, equals);
    if (!spec.options.emplace(key, part.substr(equals + 1)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("source '", spec.name, "': ", key, " is given twice"));
    }
  }
  return spec;
}

const std::string* OptionReader::Find(const std::string& key) {
  known_.push_back(key);
  const auto found = options_.find(key);
  return found == options_.end() ? nullptr : &found->second;
}

void OptionReader::Refuse(const std::string& key, absl::string_view why) {
  if (wrong_.empty()) wrong_ = absl::StrCat("source '", source_, "': ", key, " ", why);
}

std::string OptionReader::Text(const std::string& key, std::string otherwise) {
  const std::string* value = Find(key);
  return value != nullptr ? *value : otherwise;
}

absl::Duration OptionReader::Length(const std::string& key, absl::Duration otherwise,
                                    absl::Duration least) {
  const std::string* value = Find(key);
  if (value == nullptr) return otherwise;
  const std::optional<absl::Duration> length = ParseLead(*value);
  if (!length || *length < least) {
    Refuse(key, absl::StrCat("is a duration of at least ", absl::FormatDuration(least),
                             ": 2s, 500ms, 1h"));
    return otherwise;
  }
  return *length;
}

bool OptionReader::Switch(const std::string& key, bool otherwise) {
  const std::string* value = Find(key);
  if (value == nullptr) return otherwise;
  if (*value == "yes" || *value == "true" || *value == "on" || *value == "1") return true;
  if (*value != "no" && *value != "false" && *value != "off" && *value != "0") {
    Refuse(key, "is yes or no");
  }
  return false;
}

absl::Status OptionReader::Finish() const {
  if (!wrong_.empty()) return absl::InvalidArgumentError(wrong_);
  for (const auto& [key, value] : options_) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
      return absl::InvalidArgumentError(absl::StrCat("source '", source_, "': has no option '", key,
                                                     "'; it has ", absl::StrJoin(known_, ", ")));
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep::preempt

// Reading JSON that others wrote: a field that is missing or of another type is as if it were
// empty. Pure.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace lockstep::preempt {

using Json = nlohmann::json;

// Discarded (`is_discarded`) when it is no JSON; throws nothing.
inline Json ParseJson(absl::string_view text) {
  return Json::parse(text.begin(), text.end(), nullptr, false);
}

// Empty when it is missing, or no text.
inline std::string StringField(const Json& object, const char* name) {
  if (!object.is_object()) return {};
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Null when it is missing.
inline const Json& Field(const Json& object, const char* name) {
  static const Json& nothing = *new Json;
  if (!object.is_object()) return nothing;
  const auto found = object.find(name);
  return found != object.end() ? *found : nothing;
}

// Nullopt: the text is no time.
inline std::optional<absl::Time> ParseRfc3339(const std::string& text) {
  absl::Time time;
  std::string error;
  if (text.empty() || !absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    return std::nullopt;
  }
  return time;
}

// Nullopt when it is missing, or no time.
inline std::optional<absl::Time> Rfc3339Field(const Json& object, const char* name) {
  return ParseRfc3339(StringField(object, name));
}

}  // namespace lockstep::preempt

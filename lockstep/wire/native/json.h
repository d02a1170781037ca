// Messages as JSON, from their lists of fields. Pure.
//
// Every field stands in the object, in the order of the list: repeated ones as arrays, those that
// are absent as null, enums by name. 64-bit ids (uint64_t) are strings of digits, since many
// readers of JSON keep 53 bits of a number; durations and counts are numbers. Bytes are a string
// when they are UTF-8, else {"base64": "..."}.
#pragma once

#include <concepts>
#include <string>

#include "absl/strings/escaping.h"
#include "lockstep/wire/native/field.h"
#include "lockstep/wire/native/utf8.h"
#include "nlohmann/json.hpp"

namespace lockstep::wire::native {

using Json = nlohmann::ordered_json;

template <class T>
Json ToJson(const T& value) {
  if constexpr (IsOptional<T>::value) {
    return value.has_value() ? ToJson(*value) : Json(nullptr);
  } else if constexpr (IsVector<T>::value) {
    Json array = Json::array();
    for (const auto& element : value) array.push_back(ToJson(element));
    return array;
  } else if constexpr (IsMessage<T>) {
    Json object = Json::object();
    ForEachField<T>(
        [&](const auto& field) { object[std::string(field.name)] = ToJson(value.*field.member); });
    return object;
  } else if constexpr (std::is_enum_v<T>) {
    return Json(std::string(NameOf(value)));
  } else if constexpr (std::same_as<T, Bytes>) {
    if (IsUtf8(value.data)) return Json(value.data);
    return Json{{"base64", std::string(absl::Base64Escape(value.data))}};
  } else if constexpr (std::same_as<T, SharedBytes>) {
    return ToJson(Bytes{std::string(value.view())});
  } else if constexpr (std::same_as<T, BytesView>) {
    return ToJson(Bytes{std::string(value.view)});
  } else if constexpr (std::same_as<T, uint64_t>) {
    return Json(std::to_string(value));
  } else {
    return Json(value);
  }
}

}  // namespace lockstep::wire::native

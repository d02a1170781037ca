#include "lockstep/launch/error_file.h"

#include "lockstep/launch/read_file.h"
#include "nlohmann/json.hpp"

namespace lockstep::launch {

std::string ErrorTextOf(const std::string& json) {
  const auto said = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object() || !said.contains("message")) return "";
  // Older versions of torch write the text alone.
  const nlohmann::json& outer = said["message"];
  const nlohmann::json& message =
      outer.is_object() && outer.contains("message") ? outer["message"] : outer;
  if (!message.is_string()) return "";
  std::string text = message.get<std::string>().substr(0, kErrorTextBytesMax);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

std::string ReadErrorFile(const std::string& path) {
  return ErrorTextOf(ReadFile(path, kErrorFileBytesMax));
}

}  // namespace lockstep::launch

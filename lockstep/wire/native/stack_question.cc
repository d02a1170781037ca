#include "lockstep/wire/native/stack_question.h"

#include "nlohmann/json.hpp"

namespace lockstep::wire::native {

using nlohmann::json;

std::string EncodeQuestion(const StacksAsked& asked) {
  json said = {{"id", asked.id}, {"members", asked.members}, {"native", asked.native}};
  if (!asked.because.empty()) said["because"] = asked.because;
  if (asked.say) said["say"] = true;
  if (asked.signal) said["signal"] = true;
  // Names of barriers may be any bytes.
  return said.dump(-1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<StacksAsked> DecodeQuestion(const std::string& text) {
  try {
    const json said = json::parse(text);
    return StacksAsked{.id = said.at("id").get<std::string>(),
                       .members = said.at("members").get<std::vector<int32_t>>(),
                       .native = said.at("native").get<bool>(),
                       .because = said.value("because", std::string()),
                       .say = said.value("say", false),
                       .signal = said.value("signal", false)};
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("no question for stacks: ", error.what()));
  }
}

}  // namespace lockstep::wire::native

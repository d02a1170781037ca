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

namespace {

// Counts brackets outside of strings, so that no parser builds what is too deep.
bool IsTooDeep(const std::string& text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kStackQuestionDepthMax) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<StacksAsked> DecodeQuestion(const std::string& text) {
  if (text.size() > kStackQuestionBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a question for stacks has ", text.size(),
                                                   " bytes, and may have ", kStackQuestionBytesMax,
                                                   " (stack_question_bytes_max)"));
  }
  if (IsTooDeep(text)) {
    return absl::InvalidArgumentError(absl::StrCat("a question for stacks is nested deeper than ",
                                                   kStackQuestionDepthMax,
                                                   " levels (stack_question_depth_max)"));
  }
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

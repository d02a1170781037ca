// Through which keys of a job its launchers are asked for stacks, and answer. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace lockstep::cli {

// Keys of both live this long: a question that nobody is there for is forgotten, and so are
// answers.
inline constexpr absl::Duration kStackKeysLive = absl::Minutes(1);

struct StacksAsked {
  std::string id;                // of this question
  std::vector<int32_t> members;  // empty: all
  bool native = false;
};

std::string EncodeQuestion(const StacksAsked& asked);
// INVALID_ARGUMENT: it is none.
absl::StatusOr<StacksAsked> DecodeQuestion(const std::string& text);

inline constexpr char kStackQuestionKey[] = "_stacks/question";
inline std::string StackAnswersDirectory(const std::string& id) {
  return absl::StrCat("_stacks/answers/", id);
}

}  // namespace lockstep::cli

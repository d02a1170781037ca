// Through which keys of a job its launchers are asked where their processes are, and answer. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace lockstep::wire::native {

// What people ask, and the answers to it, live this long: a question that nobody is there for is
// forgotten.
inline constexpr absl::Duration kStackKeysLive = absl::Minutes(1);
// What the server asks when something times out: who starts later has nothing to say to it.
inline constexpr absl::Duration kStackQuestionOfTimeoutLives = absl::Seconds(10);
// The answers to that, for whoever comes to look.
inline constexpr absl::Duration kStacksOfTimeoutLive = absl::Minutes(10);

// The server and the launchers parse no longer and no deeper question.
inline constexpr size_t kStackQuestionBytesMax = size_t{64} << 10;
inline constexpr int kStackQuestionDepthMax = 8;

struct StacksAsked {
  std::string id;                // of this question
  std::vector<int32_t> members;  // empty: all
  bool native = false;
  std::string because;  // it was asked when this happened; empty: somebody wants to know
  bool say = false;     // launchers say in their own output what they saw
  bool signal = false;  // who does not answer otherwise is signalled

  friend bool operator==(const StacksAsked&, const StacksAsked&) = default;
};

std::string EncodeQuestion(const StacksAsked& asked);
// INVALID_ARGUMENT: it is none, or is longer or deeper than the limits above.
absl::StatusOr<StacksAsked> DecodeQuestion(const std::string& text);

inline constexpr char kStackQuestionKey[] = "_stacks/question";
// Set by the launcher that asks since a process has not moved: of all of a job one asks at a time.
inline constexpr char kStackAskerKey[] = "_stacks/asker";
inline std::string StackAnswersDirectory(const std::string& id) {
  return absl::StrCat("_stacks/answers/", id);
}

}  // namespace lockstep::wire::native

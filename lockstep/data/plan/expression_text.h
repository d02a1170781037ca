// The text form of expressions, before types are known. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::plan {

// One node of the text: "(add a 2)" is a list whose first part is the word `add`.
struct ExprText {
  enum class Kind : uint8_t { kInteger, kReal, kWord, kQuoted, kList };
  Kind kind = Kind::kWord;
  int64_t integer = 0;
  double real = 0;
  std::string text;  // of words and quoted
  std::vector<ExprText> parts;
  size_t at = 0;  // where it begins
};

// Bounds: kExpressionBytesMax, kExpressionDepthMax. INVALID_ARGUMENT with kDefinitionInvalid: what
// is wrong, and where.
absl::StatusOr<ExprText> ParseExpression(std::string_view text);

// "... (in the expression at character 12: (add x)". INVALID_ARGUMENT with kDefinitionInvalid.
absl::Status InvalidExpression(const std::string& what, size_t at);

}  // namespace lockstep::plan

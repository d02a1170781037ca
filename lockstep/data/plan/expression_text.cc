#include "lockstep/data/plan/expression_text.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/data/plan/error.h"
#include "lockstep/data/plan/expression.h"

namespace lockstep::plan {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  absl::StatusOr<ExprText> Whole() {
    auto expression = One(0);
    if (!expression.ok()) return expression.status();
    SkipSpace();
    if (at_ != text_.size()) return InvalidExpression("something follows its end", at_);
    return expression;
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  absl::StatusOr<ExprText> One(int depth) {
    SkipSpace();
    if (depth > kExpressionDepthMax) return InvalidExpression("it is nested too deep", at_);
    if (at_ == text_.size()) return InvalidExpression("it ends too early", at_);
    switch (text_[at_]) {
      case '(':
        return List(depth);
      case '"':
        return Quoted();
      case ')':
        return InvalidExpression("there is a ')' too many", at_);
      default:
        return Word();
    }
  }

  absl::StatusOr<ExprText> List(int depth) {
    ExprText list = {.kind = ExprText::Kind::kList, .at = at_++};
    for (;;) {
      SkipSpace();
      if (at_ == text_.size()) return InvalidExpression("a ')' is missing", list.at);
      if (text_[at_] == ')') break;
      auto part = One(depth + 1);
      if (!part.ok()) return part.status();
      list.parts.push_back(*std::move(part));
    }
    ++at_;
    if (list.parts.empty() || list.parts[0].kind != ExprText::Kind::kWord) {
      return InvalidExpression("a list begins with an operator", list.at);
    }
    return list;
  }

  absl::StatusOr<ExprText> Quoted() {
    ExprText quoted = {.kind = ExprText::Kind::kQuoted, .at = at_++};
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && ++at_ == text_.size()) break;
      quoted.text.push_back(text_[at_]);
    }
    if (at_ == text_.size()) return InvalidExpression("a quote is not closed", quoted.at);
    ++at_;
    return quoted;
  }

  absl::StatusOr<ExprText> Word() {
    ExprText word = {.at = at_};
    while (at_ < text_.size() && text_[at_] != '(' && text_[at_] != ')' && text_[at_] != '"' &&
           !absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) {
      word.text.push_back(text_[at_++]);
    }
    // Whoever calls has seen a character of it.
    LOCKSTEP_DCHECK(!word.text.empty());
    const char first = word.text[0];
    const bool number = absl::ascii_isdigit(static_cast<unsigned char>(first)) || first == '-' ||
                        first == '.' || word.text == "inf" || word.text == "nan";
    if (!number) return word;
    if (absl::SimpleAtoi(word.text, &word.integer)) {
      word.kind = ExprText::Kind::kInteger;
    } else if (absl::SimpleAtod(word.text, &word.real)) {
      word.kind = ExprText::Kind::kReal;
    } else {
      return InvalidExpression(absl::StrCat("'", word.text, "' is no number"), word.at);
    }
    return word;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

absl::Status InvalidExpression(const std::string& what, size_t at) {
  return Invalid(absl::StrCat(what, " (at character ", at + 1, " of the expression)"));
}

absl::StatusOr<ExprText> ParseExpression(std::string_view text) {
  if (text.size() > kExpressionBytesMax) {
    return Invalid(absl::StrCat("an expression may have ", kExpressionBytesMax, " bytes"));
  }
  return Parser(text).Whole();
}

}  // namespace lockstep::plan

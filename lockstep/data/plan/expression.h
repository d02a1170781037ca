// Small typed expressions over one element, which `map` and `filter` run. Pure.
//
// Text in prefix form, as Python's builder traces it from a lambda:
//
//   expression := number | true | false | field | (operator expression...)
//   number     := 12 | -3 | 0.5 | 1e-3 | inf | nan     a point or exponent makes it a float
//   field      := _                     the whole element, when it is single
//               | (get "name")          a leaf of it; \" and \\ within the quotes
//
//   (add a b) (sub a b) (mul a b) (mod a b) (floordiv a b) (min a b) (max a b)
//   (div a b)                           always a float
//   (neg a) (abs a)
//   (eq a b) (ne a b) (lt a b) (le a b) (gt a b) (ge a b)        bool
//   (and a b) (or a b) (not a)                                   of bool
//   (where condition a b)
//   (cast a "float32")
//   (slice a first end)                 of the first dimension; whole numbers, negative from the
//   end (index a i)                         takes the first dimension away (length a) int64: of the
//   first dimension; of a text or bytes: in bytes (sum a) (mean a)                    of all of it;
//   sum of whole numbers is int64, of bool too (record "name" a "name" b ...)      outermost only,
//   for `map`: several leaves
//
// Types go as NumPy's: numbers written in the expression take the type of what they meet (a float
// beside whole numbers makes float64); int32 and float32 make float64, int16 and float32 float32.
// uint64 beside a signed type and float16, bfloat16 take a cast. Shapes are equal, or one of them
// is a scalar. Whole numbers wrap around; floordiv and mod by 0 of whole numbers fail the element;
// they round down, as in Python. Text and bytes can only be got, recorded and measured.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/data/plan/definition.h"

namespace lockstep::plan {

// `expression_bytes_max`, `expression_depth_max`.
inline constexpr size_t kExpressionBytesMax = 64 << 10;
inline constexpr int kExpressionDepthMax = 64;

enum class ExprOp : uint8_t {
  kNumber,
  kField,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kMin,
  kMax,
  kNeg,
  kAbs,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  kNot,
  kWhere,
  kCast,
  kSlice,
  kIndex,
  kLength,
  kSum,
  kMean,
};

// An expression whose types are known. Operands that differ in type were given casts.
struct Expr {
  ExprOp op = ExprOp::kNumber;
  DType type = DType::kInt64;  // of the result
  std::vector<int64_t> dims;   // of the result
  std::vector<Expr> args;
  int64_t integer = 0;  // kNumber; kIndex: i; kSlice: first
  int64_t end = 0;      // kSlice
  double real = 0;      // kNumber of a float
  size_t field = 0;     // kField: index of the leaf
};

// One expression for each leaf of `spec`.
struct CompiledExpression {
  ElementSpec spec;
  std::vector<Expr> leaves;
};

// INVALID_ARGUMENT: the text says what and where in the expression.
absl::StatusOr<CompiledExpression> CompileMap(std::string_view text, const ElementSpec& input);
// The same, for one bool.
absl::StatusOr<CompiledExpression> CompileFilter(std::string_view text, const ElementSpec& input);

}  // namespace lockstep::plan

#include "lockstep/data/plan/expression.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/check.h"
#include "lockstep/data/plan/error.h"
#include "lockstep/data/plan/expression_text.h"

namespace lockstep::plan {
namespace {

using Kind = ExprText::Kind;

struct NamedOp {
  std::string_view name;
  ExprOp op;
  size_t args;
};

constexpr NamedOp kOps[] = {
    {"add", ExprOp::kAdd, 2},
    {"sub", ExprOp::kSub, 2},
    {"mul", ExprOp::kMul, 2},
    {"div", ExprOp::kDiv, 2},
    {"floordiv", ExprOp::kFloorDiv, 2},
    {"mod", ExprOp::kMod, 2},
    {"min", ExprOp::kMin, 2},
    {"max", ExprOp::kMax, 2},
    {"neg", ExprOp::kNeg, 1},
    {"abs", ExprOp::kAbs, 1},
    {"eq", ExprOp::kEq, 2},
    {"ne", ExprOp::kNe, 2},
    {"lt", ExprOp::kLt, 2},
    {"le", ExprOp::kLe, 2},
    {"gt", ExprOp::kGt, 2},
    {"ge", ExprOp::kGe, 2},
    {"and", ExprOp::kAnd, 2},
    {"or", ExprOp::kOr, 2},
    {"not", ExprOp::kNot, 1},
    {"where", ExprOp::kWhere, 3},
    {"cast", ExprOp::kCast, 2},
    {"slice", ExprOp::kSlice, 3},
    {"index", ExprOp::kIndex, 2},
    {"length", ExprOp::kLength, 1},
    {"sum", ExprOp::kSum, 1},
    {"mean", ExprOp::kMean, 1},
};

// All but kNumber and kField, which are written otherwise.
static_assert(std::size(kOps) == static_cast<size_t>(ExprOp::kMean) - 1);

bool IsFloat(DType type) { return type == DType::kFloat32 || type == DType::kFloat64; }
bool IsHalf(DType type) { return type == DType::kFloat16 || type == DType::kBFloat16; }
bool IsUnsigned(DType type) { return type >= DType::kUint8 && type <= DType::kUint64; }
bool IsWhole(DType type) { return type >= DType::kInt8 && type <= DType::kUint64; }

DType SignedOf(size_t bytes) {
  LOCKSTEP_DCHECK(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  return bytes == 1   ? DType::kInt8
         : bytes == 2 ? DType::kInt16
         : bytes == 4 ? DType::kInt32
                      : DType::kInt64;
}

// As NumPy's; none: a cast is needed.
std::optional<DType> Common(DType a, DType b) {
  if (a == b) return a;
  if (IsVariable(a) || IsVariable(b) || IsHalf(a) || IsHalf(b)) return std::nullopt;
  if (a == DType::kBool) return b;
  if (b == DType::kBool) return a;
  if (IsFloat(a) && IsFloat(b)) return DType::kFloat64;
  if (IsFloat(a) || IsFloat(b)) {
    const DType real = IsFloat(a) ? a : b;
    return BytesOf(IsFloat(a) ? b : a) <= 2 ? real : DType::kFloat64;
  }
  if (IsUnsigned(a) == IsUnsigned(b)) return BytesOf(a) > BytesOf(b) ? a : b;
  const DType plain = IsUnsigned(a) ? b : a;
  const DType unsigned_one = IsUnsigned(a) ? a : b;
  if (BytesOf(unsigned_one) < BytesOf(plain)) return plain;
  if (BytesOf(unsigned_one) == 8) return std::nullopt;
  return SignedOf(2 * BytesOf(unsigned_one));
}

bool Fits(int64_t value, DType type) {
  if (!IsWhole(type)) return true;
  if (IsUnsigned(type)) {
    return value >= 0 && (BytesOf(type) == 8 || value < int64_t{1} << (8 * BytesOf(type)));
  }
  const int64_t limit = std::numeric_limits<int64_t>::max() >> (64 - 8 * BytesOf(type));
  return value <= limit && value >= -limit - 1;
}

Expr CastTo(Expr a, DType type) {
  if (a.type == type) return a;
  if (a.op == ExprOp::kNumber) {  // at once
    if (IsFloat(type) && !IsFloat(a.type)) a.real = static_cast<double>(a.integer);
    a.type = type;
    return a;
  }
  Expr cast = {.op = ExprOp::kCast, .type = type, .dims = a.dims};
  cast.args.push_back(std::move(a));
  return cast;
}

class Compiler {
 public:
  explicit Compiler(const ElementSpec& input) : input_(input) {}

  absl::StatusOr<Expr> One(const ExprText& text);

 private:
  absl::StatusOr<Expr> Field(const ExprText& text);
  absl::StatusOr<Expr> Typed(Expr expr, const ExprText& text);
  absl::StatusOr<Expr> Cast(const ExprText& text);
  absl::StatusOr<Expr> Cut(ExprOp op, const ExprText& text);
  absl::Status Promote(Expr& a, Expr& b, const ExprText& text);
  absl::Status Shape(Expr& expr, const ExprText& text);

  const ElementSpec& input_;
};

absl::StatusOr<Expr> Compiler::Field(const ExprText& text) {
  if (text.kind == Kind::kWord) {
    if (!input_.single) {
      return InvalidExpression(
          "_ is the whole of a single element, and this one has leaves: write "
          "(get \"name\")",
          text.at);
    }
    LOCKSTEP_DCHECK(input_.leaves.size() == 1);
    return Expr{.op = ExprOp::kField, .type = input_.leaves[0].type, .dims = input_.leaves[0].dims};
  }
  if (text.parts.size() != 2 || text.parts[1].kind != Kind::kQuoted) {
    return InvalidExpression("write (get \"name\")", text.at);
  }
  for (size_t i = 0; i < input_.leaves.size() && !input_.single; ++i) {
    const Leaf& leaf = input_.leaves[i];
    if (leaf.name == text.parts[1].text) {
      return Expr{.op = ExprOp::kField, .type = leaf.type, .dims = leaf.dims, .field = i};
    }
  }
  return InvalidExpression(
      absl::StrCat("the element has no leaf '", text.parts[1].text, "'; it is ", ToText(input_)),
      text.at);
}

absl::Status Compiler::Promote(Expr& a, Expr& b, const ExprText& text) {
  const auto common = [&]() -> std::optional<DType> {
    const bool weak_a = a.op == ExprOp::kNumber && b.op != ExprOp::kNumber;
    const bool weak_b = b.op == ExprOp::kNumber && a.op != ExprOp::kNumber;
    if (!weak_a && !weak_b) return Common(a.type, b.type);
    const Expr& number = weak_a ? a : b;
    const DType other = weak_a ? b.type : a.type;
    if (IsHalf(other) || IsVariable(other)) return std::nullopt;
    if (number.type == DType::kBool) return other;
    if (IsFloat(number.type)) return IsFloat(other) ? other : DType::kFloat64;
    return other == DType::kBool ? DType::kInt64 : other;
  }();
  if (!common) {
    return InvalidExpression(
        absl::StrCat(std::string(NameOf(a.type)), " and ", std::string(NameOf(b.type)),
                     " have no type in common: cast one of them"),
        text.at);
  }
  for (const Expr* e : {&a, &b}) {
    if (e->op == ExprOp::kNumber && e->type == DType::kInt64 && !Fits(e->integer, *common)) {
      return InvalidExpression(absl::StrCat(e->integer, " does not fit into ",
                                            std::string(NameOf(*common)), ": cast the other side"),
                               text.at);
    }
  }
  a = CastTo(std::move(a), *common);
  b = CastTo(std::move(b), *common);
  return absl::OkStatus();
}

// The shape of what works item by item.
absl::Status Compiler::Shape(Expr& expr, const ExprText& text) {
  expr.dims.clear();
  for (const Expr& arg : expr.args) {
    if (arg.dims.empty()) continue;
    if (expr.dims.empty()) {
      expr.dims = arg.dims;
      continue;
    }
    bool fits = expr.dims.size() == arg.dims.size();
    for (size_t i = 0; fits && i < arg.dims.size(); ++i) {
      if (expr.dims[i] == kUnknownDim) expr.dims[i] = arg.dims[i];
      fits = arg.dims[i] == kUnknownDim || arg.dims[i] == expr.dims[i];
    }
    if (!fits) {
      return InvalidExpression(absl::StrCat("shapes [", absl::StrJoin(expr.dims, ","), "] and [",
                                            absl::StrJoin(arg.dims, ","), "] do not go together"),
                               text.at);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Expr> Compiler::Cast(const ExprText& text) {
  if (text.parts.size() != 3 || text.parts[2].kind != Kind::kQuoted) {
    return InvalidExpression("write (cast a \"float32\")", text.at);
  }
  auto a = One(text.parts[1]);
  if (!a.ok()) return a;
  const auto type = ParseDType(text.parts[2].text);
  if (!type.ok()) return InvalidExpression(std::string(type.status().message()), text.at);
  if (IsVariable(*type) || IsVariable(a->type)) {
    return InvalidExpression("text and bytes cannot be cast", text.at);
  }
  if (a->op == ExprOp::kNumber) {  // keeps its own type from here on
    Expr cast = {.op = ExprOp::kCast, .type = *type};
    cast.args.push_back(*std::move(a));
    return cast;
  }
  return CastTo(*std::move(a), *type);
}

absl::StatusOr<Expr> Compiler::Cut(ExprOp op, const ExprText& text) {
  auto a = One(text.parts[1]);
  if (!a.ok()) return a;
  for (size_t i = 2; i < text.parts.size(); ++i) {
    if (text.parts[i].kind != Kind::kInteger) {
      return InvalidExpression("places in an array are whole numbers", text.parts[i].at);
    }
  }
  if (a->dims.empty() || IsVariable(a->type)) {
    return InvalidExpression("only an array can be cut", text.at);
  }
  Expr cut = {.op = op, .type = a->type, .dims = a->dims};
  const int64_t length = a->dims[0];
  if (op == ExprOp::kIndex) {
    cut.integer = text.parts[2].integer;
    if (length != kUnknownDim && (cut.integer >= length || cut.integer < -length)) {
      return InvalidExpression(absl::StrCat(cut.integer, " is not within 0 .. ", length - 1),
                               text.at);
    }
    cut.dims.erase(cut.dims.begin());
  } else {
    cut.integer = text.parts[2].integer;
    cut.end = text.parts[3].integer;
    if (length != kUnknownDim) {
      const auto place = [length](int64_t i) {
        return std::clamp<int64_t>(i < 0 ? i + length : i, 0, length);
      };
      cut.dims[0] = std::max<int64_t>(0, place(cut.end) - place(cut.integer));
    }
  }
  cut.args.push_back(*std::move(a));
  return cut;
}

absl::StatusOr<Expr> Compiler::One(const ExprText& text) {
  switch (text.kind) {
    case Kind::kInteger:
      return Expr{.integer = text.integer};
    case Kind::kReal:
      return Expr{.type = DType::kFloat64, .real = text.real};
    case Kind::kQuoted:
      return InvalidExpression("a text can stand only where a name is needed", text.at);
    case Kind::kWord:
      if (text.text == "true" || text.text == "false") {
        return Expr{.type = DType::kBool, .integer = text.text == "true" ? 1 : 0};
      }
      if (text.text == "_") return Field(text);
      return InvalidExpression(absl::StrCat("'", text.text, "' is neither a number nor a field"),
                               text.at);
    case Kind::kList:
      break;
  }
  // The parser takes no other list.
  LOCKSTEP_DCHECK(!text.parts.empty() && text.parts[0].kind == Kind::kWord);
  const std::string& name = text.parts[0].text;
  if (name == "get") return Field(text);
  if (name == "record") {
    return InvalidExpression("a record can only be the outermost, and only of map", text.at);
  }
  const auto* found = std::find_if(std::begin(kOps), std::end(kOps),
                                   [&](const NamedOp& op) { return op.name == name; });
  if (found == std::end(kOps)) {
    return InvalidExpression(absl::StrCat("there is no operator '", name, "'"), text.at);
  }
  if (text.parts.size() != found->args + 1) {
    return InvalidExpression(absl::StrCat(name, " takes ", found->args, " arguments"), text.at);
  }
  if (found->op == ExprOp::kCast) return Cast(text);
  if (found->op == ExprOp::kSlice || found->op == ExprOp::kIndex) return Cut(found->op, text);
  Expr expr = {.op = found->op};
  for (size_t i = 1; i < text.parts.size(); ++i) {
    auto arg = One(text.parts[i]);
    if (!arg.ok()) return arg;
    expr.args.push_back(*std::move(arg));
  }
  return Typed(std::move(expr), text);
}

absl::StatusOr<Expr> Compiler::Typed(Expr expr, const ExprText& text) {
  LOCKSTEP_DCHECK(!expr.args.empty());
  std::vector<Expr>& args = expr.args;
  if (expr.op == ExprOp::kLength) {
    if (args[0].dims.empty() && !IsVariable(args[0].type)) {
      return InvalidExpression("a single number has no length", text.at);
    }
    return expr;
  }
  for (const Expr& arg : args) {
    if (IsVariable(arg.type) || IsHalf(arg.type)) {
      return InvalidExpression(
          absl::StrCat("nothing can be computed with ", std::string(NameOf(arg.type)),
                       IsHalf(arg.type) ? ": cast it to float32 first" : ""),
          text.at);
    }
  }
  const bool logic = expr.op == ExprOp::kAnd || expr.op == ExprOp::kOr || expr.op == ExprOp::kNot;
  if (logic || expr.op == ExprOp::kWhere) {
    for (size_t i = 0; i < (logic ? args.size() : 1); ++i) {
      if (args[i].type != DType::kBool) {
        return InvalidExpression("a condition must be bool: compare it, such as (ne a 0)", text.at);
      }
    }
  }
  if (args.size() >= 2) {
    Expr& a = args[args.size() - 2];
    if (absl::Status status = Promote(a, args.back(), text); !status.ok()) return status;
    if (expr.op == ExprOp::kDiv && !IsFloat(a.type)) {
      a = CastTo(std::move(a), DType::kFloat64);
      args.back() = CastTo(std::move(args.back()), DType::kFloat64);
    }
  }
  expr.type = args.back().type;
  switch (expr.op) {
    case ExprOp::kEq:
    case ExprOp::kNe:
    case ExprOp::kLt:
    case ExprOp::kLe:
    case ExprOp::kGt:
    case ExprOp::kGe:
      expr.type = DType::kBool;
      break;
    case ExprOp::kSum:
      if (!IsFloat(expr.type) && expr.type != DType::kUint64) expr.type = DType::kInt64;
      return expr;
    case ExprOp::kMean:
      if (expr.type != DType::kFloat32) expr.type = DType::kFloat64;
      return expr;
    case ExprOp::kAnd:
    case ExprOp::kOr:
    case ExprOp::kNot:
    case ExprOp::kWhere:
      break;
    default:
      if (expr.type == DType::kBool) {
        return InvalidExpression("nothing can be computed with bool: cast it, or use and, or, not",
                                 text.at);
      }
      break;
  }
  if (absl::Status status = Shape(expr, text); !status.ok()) return status;
  return expr;
}

// Of a record the names are known all the same.
ElementSpec Unknown(const ExprText& text) {
  if (text.kind != Kind::kList || text.parts[0].text != "record") {
    return {.leaves = {Leaf{}}, .single = true, .known = false};
  }
  ElementSpec spec{.known = false};
  for (size_t i = 1; i < text.parts.size(); i += 2) {
    spec.leaves.push_back({.name = text.parts[i].text});
  }
  return spec;
}

}  // namespace

absl::StatusOr<CompiledExpression> CompileMap(std::string_view text, const ElementSpec& input) {
  const auto parsed = ParseExpression(text);
  if (!parsed.ok()) return parsed.status();
  if (!input.known) return CompiledExpression{.spec = Unknown(*parsed)};
  Compiler compiler(input);
  CompiledExpression compiled;
  const bool record = parsed->kind == Kind::kList && parsed->parts[0].text == "record";
  if (!record) {
    auto expr = compiler.One(*parsed);
    if (!expr.ok()) return expr.status();
    compiled.spec = {.leaves = {{.type = expr->type, .dims = expr->dims}}, .single = true};
    compiled.leaves.push_back(*std::move(expr));
    return compiled;
  }
  if (parsed->parts.size() % 2 == 0 || parsed->parts.size() == 1) {
    return InvalidExpression("a record is names and expressions in turn", parsed->at);
  }
  for (size_t i = 1; i < parsed->parts.size(); i += 2) {
    const ExprText& name = parsed->parts[i];
    for (const Leaf& leaf : compiled.spec.leaves) {
      if (leaf.name == name.text) {
        return InvalidExpression(absl::StrCat("two leaves are named '", name.text, "'"), name.at);
      }
    }
    if (name.kind != Kind::kQuoted || !IsLeafName(name.text)) {
      return InvalidExpression("a leaf of a record needs a name in quotes, without ';'", name.at);
    }
    auto expr = compiler.One(parsed->parts[i + 1]);
    if (!expr.ok()) return expr.status();
    compiled.spec.leaves.push_back({.name = name.text, .type = expr->type, .dims = expr->dims});
    compiled.leaves.push_back(*std::move(expr));
  }
  LOCKSTEP_DCHECK(compiled.leaves.size() == compiled.spec.leaves.size());
  return compiled;
}

absl::StatusOr<CompiledExpression> CompileFilter(std::string_view text, const ElementSpec& input) {
  auto compiled = CompileMap(text, input);
  if (!compiled.ok() || !input.known) return compiled;
  const ElementSpec& spec = compiled->spec;
  if (!spec.single || spec.leaves[0].type != DType::kBool || !spec.leaves[0].dims.empty()) {
    return Invalid(absl::StrCat("a filter needs one bool for an element, and this is ",
                                ToText(spec), ": compare something"));
  }
  return compiled;
}

}  // namespace lockstep::plan

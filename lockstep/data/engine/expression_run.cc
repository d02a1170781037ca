#include "lockstep/data/engine/expression_run.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/check.h"
#include "lockstep/data/engine/half.h"
#include "lockstep/data/plan/error.h"

namespace lockstep::engine::internal {
namespace {

using plan::DType;
using plan::Expr;
using plan::ExprOp;

// Values of all rows, or one value for all of them.
struct Values {
  DType type = DType::kInt64;
  std::vector<int64_t> dims;
  std::byte* data = nullptr;
  const int64_t* offsets = nullptr;  // of text and bytes
  bool constant = false;
  std::shared_ptr<const void> keep;

  template <class T>
  T* As() const {
    return reinterpret_cast<T*>(data);
  }
  int64_t items() const { return CountItems(dims); }
};

// Calls f(T{}) with the type that computes. Halves are computed with nowhere.
template <class F>
void WithType(DType type, F f) {
  switch (type) {
    case DType::kBool:
      return f(uint8_t{});
    case DType::kInt8:
      return f(int8_t{});
    case DType::kInt16:
      return f(int16_t{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kUint8:
      return f(uint8_t{});
    case DType::kUint16:
      return f(uint16_t{});
    case DType::kUint32:
      return f(uint32_t{});
    case DType::kUint64:
      return f(uint64_t{});
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    default:
      LOCKSTEP_CHECK(false);
  }
}

// How far operands step: by row and by item.
struct Steps {
  explicit Steps(const Values& values)
      : item(values.dims.empty() || values.constant ? 0 : 1),
        row(values.constant ? 0 : values.items()) {}
  int64_t item;
  int64_t row;
};

template <class In, class Out, class F>
void EachPair(const Values& a, const Values& b, const Values& out, int64_t rows, F f) {
  const Steps sa(a);
  const Steps sb(b);
  const int64_t items = out.items();
  const In* const pa = a.As<In>();
  const In* const pb = b.As<In>();
  Out* const to = out.As<Out>();
  // The plain cases, which compilers make vectors of.
  if (sa.row == items && sb.row == items) {
    for (int64_t i = 0; i < rows * items; ++i) to[i] = f(pa[i], pb[i]);
    return;
  }
  if (sa.row == items && b.constant && b.dims.empty()) {
    const In same = pb[0];
    for (int64_t i = 0; i < rows * items; ++i) to[i] = f(pa[i], same);
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < items; ++i) {
      to[r * items + i] = f(pa[r * sa.row + i * sa.item], pb[r * sb.row + i * sb.item]);
    }
  }
}

// Whole numbers wrap around, which only unsigned ones do in C++.
template <class T>
T Wrapped(ExprOp op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return op == ExprOp::kAdd ? a + b : op == ExprOp::kSub ? a - b : a * b;
  } else {
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    return static_cast<T>(op == ExprOp::kAdd ? x + y : op == ExprOp::kSub ? x - y : x * y);
  }
}

// As Python's: rounded down, and the remainder has the divisor's sign. b is not 0.
template <class T>
T FloorDivide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::floor(a / b);
  } else if constexpr (std::is_signed_v<T>) {
    if (b == -1) return Wrapped<T>(ExprOp::kSub, 0, a);
    const T quotient = static_cast<T>(a / b);
    return static_cast<T>(quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
  } else {
    return static_cast<T>(a / b);
  }
}

template <class T>
T Modulo(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const T rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  } else if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
    const T rest = static_cast<T>(a % b);
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  } else {
    return static_cast<T>(a % b);
  }
}

class Evaluator {
 public:
  Evaluator(const Block& block, const Allocator& allocator, std::vector<const char*>& bad)
      : block_(block), allocator_(allocator), bad_(bad) {}

  absl::StatusOr<Values> Run(const Expr& expr);
  // With an entry for each row.
  absl::StatusOr<Column> Spread(Values values);

 private:
  absl::StatusOr<Values> Make(DType type, std::vector<int64_t> dims, bool constant);
  absl::StatusOr<std::vector<int64_t>> ShapeOf(const std::vector<Values>& args);
  Values Field(size_t field) const;
  absl::StatusOr<Values> Number(const Expr& expr);
  absl::StatusOr<Values> Cast(const Values& a, DType type);
  absl::StatusOr<Values> Cut(const Expr& expr, const Values& a);
  absl::StatusOr<Values> Reduce(const Expr& expr, const Values& a);
  absl::StatusOr<Values> Length(const Values& a);
  void Divide(ExprOp op, const Values& a, const Values& b, const Values& out, int64_t rows);
  void Pair(ExprOp op, const Values& a, const Values& b, const Values& out, int64_t rows);
  void One(ExprOp op, const Values& a, const Values& out, int64_t rows);
  void Where(const std::vector<Values>& args, const Values& out, int64_t rows);
  void MarkAll(const char* why) { std::fill(bad_.begin(), bad_.end(), why); }

  const Block& block_;
  const Allocator& allocator_;
  std::vector<const char*>& bad_;
};

absl::StatusOr<Values> Evaluator::Make(DType type, std::vector<int64_t> dims, bool constant) {
  Values values = {.type = type, .dims = std::move(dims), .constant = constant};
  const int64_t rows = constant ? 1 : block_.rows;
  auto memory = allocator_(BytesOfItems(type, values.dims) * static_cast<uint64_t>(rows));
  if (!memory.ok()) return memory.status();
  values.data = (*memory)->data();
  values.keep = *std::move(memory);
  return values;
}

Values Evaluator::Field(size_t field) const {
  LOCKSTEP_DCHECK(field < block_.columns.size());
  const Column& column = block_.columns[field];
  return {.type = column.type,
          .dims = column.dims,
          .data = column.data,
          .offsets = column.offsets,
          .keep = column.keep};
}

absl::StatusOr<Values> Evaluator::Number(const Expr& expr) {
  auto out = Make(expr.type, {}, true);
  if (!out.ok()) return out;
  WithType(expr.type, [&](auto type) {
    using T = decltype(type);
    *out->As<T>() =
        std::is_floating_point_v<T> ? static_cast<T>(expr.real) : static_cast<T>(expr.integer);
  });
  return out;
}

absl::StatusOr<std::vector<int64_t>> Evaluator::ShapeOf(const std::vector<Values>& args) {
  const std::vector<int64_t>* shape = nullptr;
  for (const Values& arg : args) {
    if (arg.dims.empty()) continue;
    if (shape != nullptr && *shape != arg.dims) {
      return plan::Error(absl::StatusCode::kInvalidArgument, plan::kFunctionFailed,
                         absl::StrCat("shapes [", absl::StrJoin(*shape, ","), "] and [",
                                      absl::StrJoin(arg.dims, ","), "] do not go together"));
    }
    shape = &arg.dims;
  }
  return shape == nullptr ? std::vector<int64_t>() : *shape;
}

absl::StatusOr<Values> Evaluator::Cast(const Values& a, DType type) {
  auto out = Make(type, a.dims, a.constant);
  if (!out.ok()) return out;
  const int64_t count = a.items() * (a.constant ? 1 : block_.rows);
  // Halves go by way of float.
  const auto read = [&](auto store) {
    if (a.type == DType::kFloat16 || a.type == DType::kBFloat16) {
      const auto* from = a.As<uint16_t>();
      for (int64_t i = 0; i < count; ++i) {
        store(i, a.type == DType::kFloat16 ? FloatOfHalf(from[i]) : FloatOfBFloat16(from[i]));
      }
      return;
    }
    WithType(a.type, [&](auto from_type) {
      const auto* from = a.As<decltype(from_type)>();
      for (int64_t i = 0; i < count; ++i) store(i, from[i]);
    });
  };
  if (type == DType::kFloat16 || type == DType::kBFloat16) {
    auto* to = out->As<uint16_t>();
    read([&](int64_t i, auto value) {
      const auto real = static_cast<float>(value);
      to[i] = type == DType::kFloat16 ? HalfOfFloat(real) : BFloat16OfFloat(real);
    });
    return out;
  }
  WithType(type, [&](auto to_type) {
    using To = decltype(to_type);
    auto* to = out->As<To>();
    read([&](int64_t i, auto value) {
      using From = decltype(value);
      if (type == DType::kBool) {
        to[i] = static_cast<To>(value != From{0} ? 1 : 0);
      } else if constexpr (std::is_floating_point_v<From> && !std::is_floating_point_v<To>) {
        // Of what does not fit C++ says nothing: it is 0 here, on every machine.
        constexpr auto k2To63 = From(9223372036854775808.0);
        const bool fits = value >= -k2To63 && value < 2 * k2To63;
        to[i] = !fits            ? To{0}
                : value < k2To63 ? static_cast<To>(static_cast<int64_t>(value))
                                 : static_cast<To>(static_cast<uint64_t>(value));
      } else {
        to[i] = static_cast<To>(value);
      }
    });
  });
  return out;
}

absl::StatusOr<Values> Evaluator::Cut(const Expr& expr, const Values& a) {
  LOCKSTEP_DCHECK(!a.dims.empty());
  const int64_t length = a.dims[0];
  std::vector<int64_t> dims(a.dims.begin() + 1, a.dims.end());
  const int64_t inner = CountItems(dims);
  int64_t first = expr.integer < 0 ? expr.integer + length : expr.integer;
  int64_t count = 1;
  if (expr.op == ExprOp::kSlice) {
    first = std::clamp<int64_t>(first, 0, length);
    const int64_t end = std::clamp<int64_t>(expr.end < 0 ? expr.end + length : expr.end, 0, length);
    count = std::max<int64_t>(0, end - first);
    dims.insert(dims.begin(), count);
  } else if (first < 0 || first >= length) {
    MarkAll("the index is outside of the array");
    first = 0;
    count = 0;
  }
  auto out = Make(expr.type, std::move(dims), a.constant);
  if (!out.ok()) return out;
  const size_t size = BytesOf(expr.type) * static_cast<size_t>(inner);
  const int64_t rows = a.constant ? 1 : block_.rows;
  for (int64_t r = 0; r < rows && count > 0 && size > 0; ++r) {
    std::memcpy(out->data + static_cast<size_t>(r * count) * size,
                a.data + static_cast<size_t>(r * length + first) * size,
                static_cast<size_t>(count) * size);
  }
  return out;
}

absl::StatusOr<Values> Evaluator::Reduce(const Expr& expr, const Values& a) {
  auto out = Make(expr.type, {}, a.constant);
  if (!out.ok()) return out;
  const int64_t items = a.items();
  const int64_t rows = a.constant ? 1 : block_.rows;
  WithType(a.type, [&](auto type) {
    using T = decltype(type);
    // Wide enough not to lose: whole numbers wrap at 64 bits.
    using Sum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
    for (int64_t r = 0; r < rows; ++r) {
      const T* from = a.As<T>() + r * items;
      Sum sum = 0;
      for (int64_t i = 0; i < items; ++i) sum += static_cast<Sum>(from[i]);
      WithType(expr.type, [&](auto to_type) {
        using To = decltype(to_type);
        if (expr.op == ExprOp::kSum) {
          out->As<To>()[r] = static_cast<To>(sum);
        } else {
          double real = static_cast<double>(sum);
          if constexpr (std::is_signed_v<T> && !std::is_floating_point_v<T>) {
            real = static_cast<double>(static_cast<int64_t>(sum));
          }
          out->As<To>()[r] = static_cast<To>(real / static_cast<double>(items));
        }
      });
    }
  });
  return out;
}

absl::StatusOr<Values> Evaluator::Length(const Values& a) {
  auto out = Make(DType::kInt64, {}, a.constant);
  if (!out.ok()) return out;
  const int64_t rows = a.constant ? 1 : block_.rows;
  for (int64_t r = 0; r < rows; ++r) {
    out->As<int64_t>()[r] = a.dims.empty() ? a.offsets[r + 1] - a.offsets[r] : a.dims[0];
  }
  return out;
}

void Evaluator::Divide(ExprOp op, const Values& a, const Values& b, const Values& out,
                       int64_t rows) {
  WithType(out.type, [&](auto type) {
    using T = decltype(type);
    if constexpr (!std::is_floating_point_v<T>) {
      const Steps step(b);
      const int64_t items = b.dims.empty() ? 1 : b.items();
      for (int64_t r = 0; r < rows; ++r) {
        const T* at = b.As<T>() + r * step.row;
        if (std::find(at, at + items, T{0}) == at + items) continue;
        b.constant ? MarkAll("division by zero") : void(bad_[r] = "division by zero");
      }
    }
    EachPair<T, T>(a, b, out, rows, [op](T x, T y) -> T {
      if constexpr (!std::is_floating_point_v<T>) {
        if (y == 0) return 0;
      }
      return op == ExprOp::kMod ? Modulo<T>(x, y) : FloorDivide<T>(x, y);
    });
  });
}

void Evaluator::Pair(ExprOp op, const Values& a, const Values& b, const Values& out, int64_t rows) {
  // The compiler has cast both to one type.
  LOCKSTEP_DCHECK(a.type == b.type);
  if (op == ExprOp::kFloorDiv || op == ExprOp::kMod) return Divide(op, a, b, out, rows);
  WithType(a.type, [&](auto type) {
    using T = decltype(type);
    const auto same = [&](auto f) { EachPair<T, T>(a, b, out, rows, f); };
    const auto truth = [&](auto f) { EachPair<T, uint8_t>(a, b, out, rows, f); };
    switch (op) {
      case ExprOp::kAdd:
        return same([](T x, T y) { return Wrapped<T>(ExprOp::kAdd, x, y); });
      case ExprOp::kSub:
        return same([](T x, T y) { return Wrapped<T>(ExprOp::kSub, x, y); });
      case ExprOp::kMul:
        return same([](T x, T y) { return Wrapped<T>(ExprOp::kMul, x, y); });
      case ExprOp::kDiv:
        if constexpr (std::is_floating_point_v<T>) same([](T x, T y) -> T { return x / y; });
        return;
      case ExprOp::kMin:
        return same([](T x, T y) -> T { return y < x ? y : x; });
      case ExprOp::kMax:
        return same([](T x, T y) -> T { return x < y ? y : x; });
      case ExprOp::kAnd:
        return truth([](T x, T y) -> uint8_t { return x != T{0} && y != T{0}; });
      case ExprOp::kOr:
        return truth([](T x, T y) -> uint8_t { return x != T{0} || y != T{0}; });
      case ExprOp::kEq:
        return truth([](T x, T y) -> uint8_t { return x == y; });
      case ExprOp::kNe:
        return truth([](T x, T y) -> uint8_t { return x != y; });
      case ExprOp::kLt:
        return truth([](T x, T y) -> uint8_t { return x < y; });
      case ExprOp::kLe:
        return truth([](T x, T y) -> uint8_t { return x <= y; });
      case ExprOp::kGt:
        return truth([](T x, T y) -> uint8_t { return x > y; });
      default:
        return truth([](T x, T y) -> uint8_t { return x >= y; });
    }
  });
}

void Evaluator::One(ExprOp op, const Values& a, const Values& out, int64_t rows) {
  const int64_t count = a.items() * rows;
  WithType(a.type, [&](auto type) {
    using T = decltype(type);
    const T* from = a.As<T>();
    T* to = out.As<T>();
    for (int64_t i = 0; i < count; ++i) {
      if (op == ExprOp::kNot) {
        to[i] = static_cast<T>(from[i] == T{0} ? 1 : 0);
      } else if constexpr (std::is_floating_point_v<T>) {
        to[i] = op == ExprOp::kNeg ? -from[i] : std::fabs(from[i]);
      } else {
        to[i] =
            op == ExprOp::kNeg || from[i] < T{0} ? Wrapped<T>(ExprOp::kSub, 0, from[i]) : from[i];
      }
    }
  });
}

void Evaluator::Where(const std::vector<Values>& args, const Values& out, int64_t rows) {
  LOCKSTEP_DCHECK(args.size() == 3);
  const Steps sc(args[0]);
  const Steps sa(args[1]);
  const Steps sb(args[2]);
  const int64_t items = out.items();
  WithType(out.type, [&](auto type) {
    using T = decltype(type);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < items; ++i) {
        const bool first = args[0].As<uint8_t>()[r * sc.row + i * sc.item] != 0;
        out.As<T>()[r * items + i] = first ? args[1].As<T>()[r * sa.row + i * sa.item]
                                           : args[2].As<T>()[r * sb.row + i * sb.item];
      }
    }
  });
}

absl::StatusOr<Values> Evaluator::Run(const Expr& expr) {
  if (expr.op == ExprOp::kNumber) return Number(expr);
  if (expr.op == ExprOp::kField) return Field(expr.field);
  std::vector<Values> args;
  bool constant = true;
  for (const Expr& arg : expr.args) {
    auto values = Run(arg);
    if (!values.ok()) return values;
    constant = constant && values->constant;
    args.push_back(*std::move(values));
  }
  switch (expr.op) {
    case ExprOp::kCast:
      return Cast(args[0], expr.type);
    case ExprOp::kSlice:
    case ExprOp::kIndex:
      return Cut(expr, args[0]);
    case ExprOp::kSum:
    case ExprOp::kMean:
      return Reduce(expr, args[0]);
    case ExprOp::kLength:
      return Length(args[0]);
    default:
      break;
  }
  auto shape = ShapeOf(args);
  if (!shape.ok()) return shape.status();
  auto out = Make(expr.type, *std::move(shape), constant);
  if (!out.ok()) return out;
  const int64_t rows = constant ? 1 : block_.rows;
  if (expr.op == ExprOp::kWhere) {
    Where(args, *out, rows);
  } else if (args.size() == 2) {
    Pair(expr.op, args[0], args[1], *out, rows);
  } else {
    One(expr.op, args[0], *out, rows);
  }
  return out;
}

absl::StatusOr<Column> Evaluator::Spread(Values values) {
  if (values.constant) {
    auto out = Make(values.type, values.dims, false);
    if (!out.ok()) return out.status();
    const uint64_t bytes = BytesOfItems(values.type, values.dims);
    for (int64_t r = 0; r < block_.rows && bytes != 0; ++r) {
      std::memcpy(out->data + static_cast<uint64_t>(r) * bytes, values.data, bytes);
    }
    values = *std::move(out);
  }
  return Column{.type = values.type,
                .dims = std::move(values.dims),
                .data = values.data,
                .offsets = values.offsets,
                .keep = std::move(values.keep)};
}

}  // namespace

absl::StatusOr<std::vector<Column>> Evaluate(const plan::CompiledExpression& expression,
                                             const Block& block, const Allocator& allocator,
                                             std::vector<const char*>& bad) {
  bad.assign(block.rows, nullptr);
  Evaluator evaluator(block, allocator, bad);
  std::vector<Column> columns;
  for (const Expr& leaf : expression.leaves) {
    auto values = evaluator.Run(leaf);
    if (!values.ok()) return values.status();
    auto column = evaluator.Spread(*std::move(values));
    if (!column.ok()) return column.status();
    columns.push_back(*std::move(column));
  }
  return columns;
}

}  // namespace lockstep::engine::internal

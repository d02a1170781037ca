// Element types and specs: names, sizes, text form.
#include <array>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lockstep/base/check.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/data/plan/error.h"
#include "lockstep/data/plan/hash.h"

namespace lockstep::plan {
namespace {

struct NamedType {
  DType type;
  std::string_view name;
  size_t bytes;
};

// In the order of `DType`.
constexpr NamedType kTypes[] = {
    {DType::kBool, "bool", 1},         {DType::kInt8, "int8", 1},
    {DType::kInt16, "int16", 2},       {DType::kInt32, "int32", 4},
    {DType::kInt64, "int64", 8},       {DType::kUint8, "uint8", 1},
    {DType::kUint16, "uint16", 2},     {DType::kUint32, "uint32", 4},
    {DType::kUint64, "uint64", 8},     {DType::kFloat16, "float16", 2},
    {DType::kBFloat16, "bfloat16", 2}, {DType::kFloat32, "float32", 4},
    {DType::kFloat64, "float64", 8},   {DType::kText, "text", 0},
    {DType::kBytes, "bytes", 0},
};

static_assert(std::size(kTypes) == static_cast<size_t>(DType::kBytes) + 1);

const NamedType& Named(DType type) {
  const auto index = static_cast<size_t>(type);
  LOCKSTEP_CHECK(index < std::size(kTypes) && kTypes[index].type == type);
  return kTypes[index];
}

std::string LeafText(const Leaf& leaf) {
  std::string text = absl::StrCat(std::string(NameOf(leaf.type)), "[");
  for (size_t i = 0; i < leaf.dims.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",");
    leaf.dims[i] == kUnknownDim ? absl::StrAppend(&text, "?")
                                : absl::StrAppend(&text, leaf.dims[i]);
  }
  return absl::StrCat(text, "]");
}

bool ParseLeaf(absl::string_view text, Leaf& leaf) {
  const size_t bracket = text.find('[');
  if (bracket == absl::string_view::npos || text.back() != ']') return false;
  const auto type = ParseDType(std::string(text.substr(0, bracket)));
  if (!type.ok()) return false;
  leaf.type = *type;
  const absl::string_view dims = text.substr(bracket + 1, text.size() - bracket - 2);
  if (dims.empty()) return true;
  for (const absl::string_view dim : absl::StrSplit(dims, ',')) {
    int64_t value = kUnknownDim;
    if (dim != "?" && (!absl::SimpleAtoi(dim, &value) || value < 0)) return false;
    leaf.dims.push_back(value);
  }
  return leaf.dims.size() <= kRankMax;
}

}  // namespace

std::string_view NameOf(DType type) { return Named(type).name; }

size_t BytesOf(DType type) { return Named(type).bytes; }

absl::StatusOr<DType> ParseDType(std::string_view name) {
  for (const NamedType& type : kTypes) {
    if (type.name == name) return type.type;
  }
  return Invalid(absl::StrCat("'", std::string(name),
                              "' is no element type; write one such as int32, float32 or bytes"));
}

std::string ToText(const ElementSpec& spec) {
  std::string text;
  for (const Leaf& leaf : spec.leaves) {
    if (spec.single) return LeafText(leaf);
    absl::StrAppend(&text, text.empty() ? "" : ";", leaf.name, ":", LeafText(leaf));
  }
  return text;
}

absl::StatusOr<ElementSpec> ParseSpec(std::string_view text) {
  ElementSpec spec;
  const std::string whole(text);
  for (const absl::string_view part : absl::StrSplit(whole, ';')) {
    Leaf leaf;
    const size_t colon = part.rfind(':');
    const bool named = colon != absl::string_view::npos;
    if (named) leaf.name = std::string(part.substr(0, colon));
    const bool alone = part.size() == text.size();
    if (part.empty() || (named ? !IsLeafName(leaf.name) : !alone) ||
        !ParseLeaf(named ? part.substr(colon + 1) : part, leaf)) {
      return Invalid(absl::StrCat("'", whole, "' is no spec of an element; write one such as ",
                                  "\"float32[3,?]\", or \"image:uint8[28,28];label:int64[]\""));
    }
    for (const Leaf& other : spec.leaves) {
      if (other.name == leaf.name) {
        return Invalid(absl::StrCat("'", whole, "' has two leaves of one name"));
      }
    }
    spec.single = !named;
    spec.leaves.push_back(std::move(leaf));
  }
  return spec;
}

bool IsLeafName(std::string_view name) {
  return !name.empty() && name.size() <= kLeafNameBytesMax &&
         name.find(';') == std::string_view::npos;
}

uint64_t HashOf(const ElementSpec& spec) { return Hash64(ToText(spec)); }

}  // namespace lockstep::plan

#include "lockstep/data/plan/source_spec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lockstep/base/check.h"
#include "lockstep/data/plan/error.h"
#include "lockstep/data/plan/plan.h"

namespace lockstep::plan {
namespace {

using Strings = std::vector<std::string>;

constexpr int64_t kRecordBytesMax = int64_t{1} << 32;

ElementSpec Single(DType type, std::vector<int64_t> dims) {
  return {.leaves = {{.type = type, .dims = std::move(dims)}}, .single = true};
}

// In whole steps; 0 when it does not go there.
int64_t RangeCount(const CheckedNode& node) {
  const auto start = static_cast<__int128>(node.Int("start"));
  const auto stop = static_cast<__int128>(node.Int("stop"));
  const auto step = static_cast<__int128>(node.Int("step"));
  if (step == 0) return 0;
  const __int128 count =
      step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
  if (count <= 0) return 0;
  return static_cast<int64_t>(std::min<__int128>(count, kInfinite - 1));
}

absl::StatusOr<DType> FixedType(const CheckedNode& node, const std::string& name) {
  auto type = ParseDType(name);
  if (!type.ok()) return InvalidNode(node.node(), std::string(type.status().message()));
  if (IsVariable(*type)) {
    return InvalidNode(node.node(), absl::StrCat(name, " has no fixed size, as is needed here"));
  }
  return type;
}

bool ParseShape(const std::string& text, std::vector<int64_t>& dims) {
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int64_t dim = 0;
    if (!absl::SimpleAtoi(part, &dim) || dim < 0) return false;
    dims.push_back(dim);
  }
  return dims.size() <= kRankMax;
}

absl::StatusOr<ElementSpec> ArraySpec(const CheckedNode& node) {
  const auto& names = node.As<Strings>("names");
  const auto& types = node.As<Strings>("dtypes");
  const auto& shapes = node.As<Strings>("shapes");
  const auto& data = node.As<Strings>("data");
  if (names.empty() || types.size() != names.size() || shapes.size() != names.size() ||
      data.size() != names.size()) {
    return InvalidNode(node.node(), "names, dtypes, shapes and data must be of one length");
  }
  ElementSpec spec = {.single = names.size() == 1 && names[0].empty()};
  size_t bytes_in_all = 0;
  int64_t records = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto type = FixedType(node, types[i]);
    if (!type.ok()) return type.status();
    std::vector<int64_t> dims;
    if (!ParseShape(shapes[i], dims)) {
      return InvalidNode(node.node(), absl::StrCat("'", shapes[i],
                                                   "' is no shape of an array; write one such as "
                                                   "\"100,3\""));
    }
    const int64_t items = ItemsOf(dims);
    if (items > kRecordBytesMax ||
        static_cast<uint64_t>(items) * BytesOf(*type) != data[i].size()) {
      return InvalidNode(node.node(), absl::StrCat("the array '", names[i], "' has ",
                                                   data[i].size(), " bytes, and its shape says ",
                                                   items, " times ", BytesOf(*type)));
    }
    if (i > 0 && dims[0] != records) {
      return InvalidNode(node.node(), absl::StrCat("the array '", names[i], "' has ", dims[0],
                                                   " records, and the one before it ", records));
    }
    if (std::count(names.begin(), names.end(), names[i]) != 1 ||
        (!spec.single && !IsLeafName(names[i]))) {
      return InvalidNode(node.node(), "each array needs a name of its own, without ';'");
    }
    records = dims[0];
    bytes_in_all += data[i].size();
    spec.leaves.push_back({names[i], *type, {dims.begin() + 1, dims.end()}});
  }
  if (bytes_in_all > kDefinitionBytesMax) {
    return InvalidNode(
        node.node(), absl::StrCat("arrays within a definition may have ", kDefinitionBytesMax >> 20,
                                  " MiB together: save them as .npy, and read those"));
  }
  return spec;
}

absl::StatusOr<ElementSpec> NpySpec(const CheckedNode& node, const Manifest* manifest) {
  std::string text = node.Text("spec");
  if (manifest != nullptr) {
    if (const auto found = manifest->specs.find(node.node().id); found != manifest->specs.end()) {
      if (!text.empty() && text != found->second) {
        return InvalidNode(node.node(), absl::StrCat("it says that rows are ", text,
                                                     ", and the files have ", found->second));
      }
      text = found->second;
    }
  }
  if (text.empty()) return ElementSpec{.leaves = {Leaf{}}, .single = true, .known = false};
  auto spec = ParseSpec(text);
  if (!spec.ok()) return InvalidNode(node.node(), std::string(spec.status().message()));
  const bool fixed =
      spec->single && !spec->leaves[0].variable() &&
      std::count(spec->leaves[0].dims.begin(), spec->leaves[0].dims.end(), kUnknownDim) == 0;
  if (!fixed) return InvalidNode(node.node(), "rows of .npy files are single arrays of fixed size");
  return spec;
}

absl::Status CheckLength(const CheckedNode& node, std::string_view name, int64_t value,
                         int64_t size) {
  LOCKSTEP_DCHECK(size > 0);
  if (value >= 1 && value <= kRecordBytesMax / size) return absl::OkStatus();
  return InvalidNode(
      node.node(), absl::StrCat(std::string(name), " must be from 1 to ", kRecordBytesMax / size));
}

absl::StatusOr<ElementSpec> WindowsSpec(const CheckedNode& node) {
  const auto type = FixedType(node, node.Text("dtype"));
  if (!type.ok()) return type.status();
  const auto size = static_cast<int64_t>(BytesOf(*type));
  const int64_t length = node.Int("length");
  const int64_t stride = node.Int("stride") == -1 ? length : node.Int("stride");
  absl::Status status = CheckLength(node, "length", length, size);
  status.Update(CheckLength(node, "stride", stride, size));
  if (!status.ok()) return status;
  return Single(*type, {length});
}

absl::StatusOr<ElementSpec> FillSpec(const CheckedNode& node) {
  const auto type = FixedType(node, node.Text("dtype"));
  if (!type.ok()) return type.status();
  const auto& shape = node.As<std::vector<int64_t>>("shape");
  const bool negative =
      std::any_of(shape.begin(), shape.end(), [](int64_t dim) { return dim < 0; });
  if (negative || shape.size() > kRankMax ||
      ItemsOf(shape) > kRecordBytesMax / static_cast<int64_t>(BytesOf(*type))) {
    return InvalidNode(node.node(), "the shape is too large, or has a negative dimension");
  }
  if (node.Int("count") < 0) return InvalidNode(node.node(), "count must be 0 or more");
  return Single(*type, shape);
}

}  // namespace

int64_t ItemsOf(const std::vector<int64_t>& dims) {
  __int128 items = 1;
  bool large = false;
  for (const int64_t dim : dims) {
    if (dim == kUnknownDim) continue;
    if (dim == 0) return 0;
    if (!large) items *= dim;
    large = large || items > (__int128{1} << 62);
  }
  return large ? kInfinite : static_cast<int64_t>(items);
}

absl::StatusOr<ElementSpec> SourceSpec(const CheckedNode& source, const Manifest* manifest) {
  if (source.rule().reads_files && source.As<Strings>("paths").empty()) {
    return InvalidNode(source.node(), "it needs at least one path");
  }
  switch (source.op()) {
    case Op::kRange:
      if (source.Int("step") == 0) return InvalidNode(source.node(), "step must not be 0");
      return Single(DType::kInt64, {});
    case Op::kArray:
      return ArraySpec(source);
    case Op::kNpy:
      return NpySpec(source, manifest);
    case Op::kWindows:
      return WindowsSpec(source);
    case Op::kRecords:
      if (absl::Status status = CheckLength(source, "bytes", source.Int("bytes"), 1);
          !status.ok()) {
        return status;
      }
      return Single(DType::kUint8, {source.Int("bytes")});
    case Op::kLines:
      return Single(source.As<bool>("text") ? DType::kText : DType::kBytes, {});
    case Op::kFill:
      return FillSpec(source);
    default:
      return Single(DType::kBytes, {});
  }
}

int64_t RecordsOf(const CheckedNode& source, const Manifest& manifest) {
  switch (source.op()) {
    case Op::kRange:
      return RangeCount(source);
    case Op::kFill:
      return source.Int("count");
    case Op::kArray: {
      std::vector<int64_t> dims;
      ParseShape(source.As<Strings>("shapes")[0], dims);
      LOCKSTEP_DCHECK(!dims.empty());
      return dims[0];
    }
    default:
      break;
  }
  int64_t records = 0;
  for (const FileInfo& file : manifest.files) {
    if (file.node != source.node().id || file.records <= 0) continue;
    records = file.records > kInfinite - 1 - records ? kInfinite - 1 : records + file.records;
  }
  return records;
}

int64_t BytesOfRecord(const CheckedNode& source, const ElementSpec& spec,
                      const Manifest& manifest) {
  int64_t bytes = 0;
  bool variable = false;
  for (const Leaf& leaf : spec.leaves) {
    variable = variable || leaf.variable();
    const int64_t items = ItemsOf(leaf.dims);
    bytes += std::min(items, kRecordBytesMax) * static_cast<int64_t>(BytesOf(leaf.type));
  }
  if (variable) {
    uint64_t all = 0;
    for (const FileInfo& file : manifest.files) {
      if (file.node == source.node().id) all += file.bytes;
    }
    const int64_t records = std::max<int64_t>(1, RecordsOf(source, manifest));
    bytes += static_cast<int64_t>(all / static_cast<uint64_t>(records));
  }
  return std::max<int64_t>(1, bytes);
}

}  // namespace lockstep::plan

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrays.h"
#include "convert.h"
#include "data.h"
#include "errors.h"
#include "lockstep/client/rendezvous.h"
#include "lockstep/engine/element.h"
#include "lockstep/engine/frame.h"
#include "tensors.h"

namespace lockstep::python {
namespace {

namespace nb = nanobind;
using plan::DType;

// A part of a frame, which it keeps.
class FrameMemory : public rendezvous::Memory {
 public:
  FrameMemory(std::span<const std::byte> bytes, std::shared_ptr<const void> frame)
      : Memory(bytes.data(), bytes.size()), frame_(std::move(frame)) {}

 private:
  const std::shared_ptr<const void> frame_;
};

rendezvous::ElementType TypeOf(DType type) {
  const auto bits = static_cast<uint8_t>(8 * plan::BytesOf(type));
  switch (type) {
    case DType::kBool:
      return {6, bits};
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return {0, bits};
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return {2, bits};
    case DType::kBFloat16:
      return {4, bits};
    default:
      return {1, bits};
  }
}

nb::object ToText(const engine::LeafView& leaf, int64_t item) {
  const std::string_view bytes = leaf.item(item);
  return leaf.type == DType::kText ? python::ToText(bytes) : nb::object(ToBytes(bytes));
}

[[noreturn]] void ThrowNotAsSaid(const plan::Leaf& leaf, const std::string& text) {
  const std::string name = leaf.name.empty() ? "the element" : absl::StrCat("'", leaf.name, "'");
  throw nb::value_error(absl::StrCat(name, " is to be ", plan::ToText({.leaves = {leaf}, .single = true}),
                                     ", ", text)
                            .c_str());
}

// A leaf on its way into a frame: numbers where they are, texts one after the other.
struct Outgoing {
  std::unique_ptr<Array> array;
  std::vector<std::string> texts;
  std::vector<int64_t> dims;
};

// Appends the texts in lists of lists; all of one depth are of one length.
void TakeTexts(nb::handle value, size_t dimension, const plan::Leaf& leaf, Outgoing& out) {
  if (dimension == leaf.dims.size()) {
    if (leaf.type == DType::kText && nb::isinstance<nb::str>(value)) {
      out.texts.push_back(nb::cast<std::string>(value));
    } else if (leaf.type == DType::kBytes && nb::isinstance<nb::bytes>(value)) {
      out.texts.push_back(FromBytes(nb::borrow<nb::bytes>(value)));
    } else {
      ThrowNotAsSaid(leaf, absl::StrCat("and has ", Py_TYPE(value.ptr())->tp_name));
    }
    return;
  }
  if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value)) {
    ThrowNotAsSaid(leaf, absl::StrCat("and has ", Py_TYPE(value.ptr())->tp_name, " for a list"));
  }
  const auto items = static_cast<int64_t>(nb::len(value));
  if (out.dims[dimension] == plan::kUnknownDim) out.dims[dimension] = items;
  if (out.dims[dimension] != items) {
    ThrowNotAsSaid(leaf, absl::StrCat("and has ", items, " items where there are ",
                                      out.dims[dimension]));
  }
  for (const nb::handle one : nb::iter(value)) TakeTexts(one, dimension + 1, leaf, out);
}

Outgoing Take(nb::handle value, const plan::Leaf& leaf) {
  Outgoing out{.dims = leaf.dims};
  if (plan::IsVariable(leaf.type)) {
    TakeTexts(value, 0, leaf, out);
    for (int64_t& extent : out.dims) extent = std::max<int64_t>(extent, 0);
    return out;
  }
  // numpy.float32(3), a list, a number: whatever NumPy takes for this type without loss of kind.
  const nb::object array = nb::module_::import_("lockstep.data._elements")
                               .attr("as_array")(value, std::string(plan::NameOf(leaf.type)));
  out.array = std::make_unique<Array>(array, Array::Access::kRead);
  const rendezvous::Description& about = out.array->about();
  bool fits = about.type == TypeOf(leaf.type) && about.shape.size() == leaf.dims.size();
  for (size_t i = 0; fits && i < leaf.dims.size(); ++i) {
    fits = leaf.dims[i] == plan::kUnknownDim || leaf.dims[i] == about.shape[i];
  }
  if (!fits) {
    ThrowNotAsSaid(leaf, absl::StrCat("and is ", rendezvous::NameOf(about.type), "[",
                                      absl::StrJoin(about.shape, ","), "]"));
  }
  out.dims = about.shape;
  return out;
}

engine::FrameLeaf LayOut(const Outgoing& leaf, DType type) {
  engine::FrameLeaf result{.type = type, .dims = leaf.dims};
  if (leaf.array != nullptr) {
    result.bytes = leaf.array->bytes();
    return result;
  }
  result.bytes = sizeof(int64_t) * (leaf.texts.size() + 1);
  for (const std::string& text : leaf.texts) result.bytes += text.size();
  return result;
}

void Write(const Outgoing& leaf, std::byte* to) {
  if (leaf.array != nullptr) return leaf.array->CopyTo(to);
  int64_t offset = 0;
  std::byte* values = to + sizeof(int64_t) * (leaf.texts.size() + 1);
  for (const std::string& text : leaf.texts) {
    std::memcpy(to, &offset, sizeof(offset));
    to += sizeof(offset);
    if (!text.empty()) std::memcpy(values + offset, text.data(), text.size());
    offset += static_cast<int64_t>(text.size());
  }
  std::memcpy(to, &offset, sizeof(offset));
}

// The items from `next` on, as the dimensions from `dimension` on order them.
nb::object ToLists(const engine::LeafView& leaf, size_t dimension, int64_t& next) {
  if (dimension == leaf.dims.size()) return ToText(leaf, next++);
  nb::list result;
  for (int64_t i = 0; i < leaf.dims[dimension]; ++i) {
    result.append(ToLists(leaf, dimension + 1, next));
  }
  return result;
}

}  // namespace

nb::list LeavesOf(std::span<const std::byte> frame, std::shared_ptr<const void> keeps) {
  const engine::ElementView view = ValueOrThrow(engine::ElementView::Parse(frame));
  nb::list leaves;
  for (size_t i = 0; i < view.leaves(); ++i) {
    const engine::LeafView& leaf = view.leaf(i);
    if (plan::IsVariable(leaf.type)) {
      int64_t next = 0;
      leaves.append(ToLists(leaf, 0, next));
      continue;
    }
    Tensor tensor({.type = TypeOf(leaf.type), .shape = {leaf.dims.begin(), leaf.dims.end()}},
                  std::make_shared<FrameMemory>(leaf.bytes, keeps));
    leaves.append(nb::cast(new ReceivedObject(Received{.tensor = std::move(tensor)}),
                           nb::rv_policy::take_ownership));
  }
  return leaves;
}

std::string FrameOf(nb::handle value, const plan::ElementSpec& spec, int64_t segment,
                    int64_t index) {
  if (!spec.single && !nb::isinstance<nb::dict>(value)) {
    throw nb::type_error(absl::StrCat("the element is to be a dict with ", plan::ToText(spec),
                                      ", and is ", Py_TYPE(value.ptr())->tp_name)
                             .c_str());
  }
  std::vector<Outgoing> leaves;
  std::vector<engine::FrameLeaf> laid;
  for (const plan::Leaf& leaf : spec.leaves) {
    nb::object one = nb::borrow(value);
    if (!spec.single) {
      const auto fields = nb::borrow<nb::dict>(value);
      if (!fields.contains(leaf.name.c_str())) ThrowNotAsSaid(leaf, "and is not there");
      one = fields[leaf.name.c_str()];
    }
    leaves.push_back(Take(one, leaf));
    laid.push_back(LayOut(leaves.back(), leaf.type));
  }
  if (!spec.single && nb::len(value) != spec.leaves.size()) {
    throw nb::value_error(
        absl::StrCat("the element is to have the fields of ", plan::ToText(spec), ", and has ",
                     nb::len(value), " fields")
            .c_str());
  }
  const engine::FrameLayout layout = engine::LayOut(laid);
  std::string frame(layout.bytes, '\0');
  auto* to = reinterpret_cast<std::byte*>(frame.data());
  engine::WriteHead(to, laid, layout, plan::HashOf(spec), segment, index);
  for (size_t i = 0; i < leaves.size(); ++i) Write(leaves[i], to + layout.offsets[i]);
  return frame;
}

nb::object ToObject(const plan::ElementSpec& spec) {
  nb::list leaves;
  for (const plan::Leaf& leaf : spec.leaves) {
    nb::list dims;
    for (const int64_t extent : leaf.dims) dims.append(extent);
    leaves.append(
        nb::make_tuple(leaf.name, std::string(plan::NameOf(leaf.type)), std::move(dims)));
  }
  return nb::make_tuple(spec.single, std::move(leaves));
}

}  // namespace lockstep::python

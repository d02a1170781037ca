#include <nanobind/stl/string.h>

#include <string_view>
#include <utility>

#include "convert.h"
#include "data.h"
#include "errors.h"
#include "lockstep/client/rendezvous.h"
#include "lockstep/data/engine/element.h"
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

nb::object ToTensor(rendezvous::Description about, std::span<const std::byte> bytes,
                    std::shared_ptr<const void> keeps) {
  Tensor tensor(std::move(about), std::make_shared<FrameMemory>(bytes, std::move(keeps)));
  return nb::cast(new ReceivedObject(Received{.tensor = std::move(tensor)}),
                  nb::rv_policy::take_ownership);
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

nb::object BytesOf(std::span<const std::byte> bytes, std::shared_ptr<const void> keeps) {
  return ToTensor({.shape = {static_cast<int64_t>(bytes.size())}}, bytes, std::move(keeps));
}

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
    leaves.append(
        ToTensor({.type = TypeOf(leaf.type), .shape = {leaf.dims.begin(), leaf.dims.end()}},
                 leaf.bytes, keeps));
  }
  return leaves;
}

nb::object ToObject(const plan::ElementSpec& spec) {
  nb::list leaves;
  for (const plan::Leaf& leaf : spec.leaves) {
    nb::list dims;
    for (const int64_t extent : leaf.dims) dims.append(extent);
    leaves.append(nb::make_tuple(leaf.name, std::string(plan::NameOf(leaf.type)), std::move(dims)));
  }
  return nb::make_tuple(spec.single, std::move(leaves));
}

}  // namespace lockstep::python

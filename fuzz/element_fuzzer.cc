#include "fuzz/element_fuzzer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "lockstep/base/check.h"
#include "lockstep/data/engine/element.h"
#include "lockstep/data/engine/frame.h"
#include "lockstep/data/engine/tfrecord.h"
#include "lockstep/data/engine/utf8.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/data/plan/expression.h"

namespace lockstep::fuzz {
namespace {

// Touches all that the frame says it has.
void ReadFrame(std::string_view bytes, bool seal) {
  const auto free = [](std::byte* memory) {
    ::operator delete(memory, std::align_val_t(engine::kFrameAlignment));
  };
  const std::unique_ptr<std::byte, decltype(free)> memory(
      static_cast<std::byte*>(::operator new(std::max<size_t>(1, bytes.size()),
                                             std::align_val_t(engine::kFrameAlignment))),
      free);
  std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), memory.get());
  const std::span<std::byte> frame(memory.get(), bytes.size());
  // Else hardly anything would get past the checksum.
  if (seal) engine::Seal(frame);
  const auto view = engine::ElementView::Parse(frame);
  if (!view.ok()) return;
  uint64_t sum = 0;
  for (size_t i = 0; i < view->leaves(); ++i) {
    const engine::LeafView& leaf = view->leaf(i);
    for (const std::byte one : leaf.bytes) sum += static_cast<uint64_t>(one);
    if (!plan::IsVariable(leaf.type)) {
      LOCKSTEP_CHECK(engine::BytesOfItems(leaf.type, leaf.dims) == leaf.bytes.size());
      continue;
    }
    size_t length = 0;
    for (int64_t item = 0; item < leaf.items(); ++item) length += leaf.item(item).size();
    LOCKSTEP_CHECK(length + static_cast<size_t>(leaf.items() + 1) * 8 == leaf.bytes.size());
  }
  LOCKSTEP_CHECK(sum <= bytes.size() * 255);
}

void ReadSpec(std::string_view bytes) {
  const auto spec = plan::ParseSpec(bytes);
  if (!spec.ok()) return;
  const auto again = plan::ParseSpec(ToText(*spec));
  LOCKSTEP_CHECK(again.ok() && *again == *spec);
}

void ReadExpression(std::string_view bytes) {
  const auto input = plan::ParseSpec("x:float32[3];i:int32[?];b:bool[];t:text[];u:uint64[]");
  LOCKSTEP_CHECK(input.ok());
  const auto compiled = plan::CompileMap(bytes, *input);
  if (!compiled.ok()) return;
  LOCKSTEP_CHECK(compiled->leaves.size() == compiled->spec.leaves.size());
  for (size_t i = 0; i < compiled->leaves.size(); ++i) {
    LOCKSTEP_CHECK(compiled->leaves[i].type == compiled->spec.leaves[i].type);
  }
}

}  // namespace

void ReadElement(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  switch (bytes[0]) {
    case 'f':
      return ReadFrame(rest, false);
    case 's':
      return ReadFrame(rest, true);
    case 't':
      return ReadSpec(rest);
    case 'e':
      return ReadExpression(rest);
    case 'r':
      static_cast<void>(engine::TfRecordLength(rest));
      static_cast<void>(engine::IsUtf8(rest));
      return;
    default:
      return;
  }
}

}  // namespace lockstep::fuzz

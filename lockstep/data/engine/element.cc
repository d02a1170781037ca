#include "lockstep/data/engine/element.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/crc32c.h"
#include "lockstep/data/engine/frame.h"

namespace lockstep::engine {
namespace {

using plan::DType;

static_assert(std::endian::native == std::endian::little);

constexpr uint16_t kFlagOffsets = 1;  // text and bytes
constexpr uint16_t kFlagText = 2;

// As they lie in the frame.
struct Header {
  uint32_t magic;
  uint16_t version;
  uint16_t flags;
  uint64_t spec_hash;
  int64_t segment;
  int64_t index;
  uint32_t leaves;
  uint32_t meta_bytes;
  uint64_t bytes;
  uint64_t reserved;
  uint32_t reserved_too;
  uint32_t crc;  // as if it were 0
};
static_assert(sizeof(Header) == kFrameHeaderBytes && offsetof(Header, bytes) == kFrameBytesAt);

struct Descriptor {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  uint16_t rank;
  uint16_t flags;
  uint64_t offset;
  uint64_t bytes;
  uint64_t reserved;
};
static_assert(sizeof(Descriptor) == kLeafDescriptorBytes);

struct Code {
  uint8_t code;
  uint8_t bits;
};

// DLPack's.
Code CodeOf(DType type) {
  switch (type) {
    case DType::kBool:
      return {6, 8};
    case DType::kBFloat16:
      return {4, 16};
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return {2, static_cast<uint8_t>(8 * BytesOf(type))};
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return {0, static_cast<uint8_t>(8 * BytesOf(type))};
    case DType::kText:
    case DType::kBytes:
      return {1, 8};
    default:
      return {1, static_cast<uint8_t>(8 * BytesOf(type))};
  }
}

bool TypeOf(const Descriptor& leaf, DType& type) {
  if (leaf.lanes != 1) return false;
  if ((leaf.flags & kFlagOffsets) != 0) {
    type = (leaf.flags & kFlagText) != 0 ? DType::kText : DType::kBytes;
    return leaf.code == 1 && leaf.bits == 8;
  }
  if (leaf.flags != 0) return false;
  for (int i = 0; i < static_cast<int>(DType::kText); ++i) {
    type = static_cast<DType>(i);
    const Code code = CodeOf(type);
    if (code.code == leaf.code && code.bits == leaf.bits) return true;
  }
  return false;
}

// It masks the low bits; dimensions are read where they lie.
static_assert(std::has_single_bit(uint64_t{kFrameAlignment}));
static_assert(sizeof(Header) % alignof(int64_t) == 0 && sizeof(Descriptor) % alignof(int64_t) == 0);
uint64_t RoundUp(uint64_t n) { return (n + kFrameAlignment - 1) & ~uint64_t{kFrameAlignment - 1}; }

uint32_t Checksum(const std::byte* frame, uint64_t meta_bytes) {
  Header header;
  std::memcpy(&header, frame, sizeof(header));
  header.crc = 0;
  const uint32_t crc =
      Crc32c(0, std::string_view(reinterpret_cast<const char*>(&header), sizeof(header)));
  return Crc32c(crc, std::string_view(reinterpret_cast<const char*>(frame) + sizeof(header),
                                      meta_bytes - sizeof(header)));
}

absl::Status Damaged(const char* what) {
  return absl::DataLossError(absl::StrCat("not an element's frame: ", what));
}

// The product; false: negative, or more than there can be.
bool Count(std::span<const int64_t> dims, uint64_t& items) {
  __int128 product = 1;
  for (const int64_t dim : dims) {
    if (dim < 0) return false;
    product *= dim;
    if (product > std::numeric_limits<int64_t>::max() / 16) return false;
  }
  items = static_cast<uint64_t>(product);
  return true;
}

bool OffsetsAreSound(std::span<const std::byte> bytes, uint64_t items) {
  if (items >= bytes.size() / sizeof(int64_t)) return false;
  const uint64_t values = bytes.size() - (items + 1) * sizeof(int64_t);
  const auto* offsets = reinterpret_cast<const int64_t*>(bytes.data());
  if (offsets[0] != 0 || static_cast<uint64_t>(offsets[items]) != values) return false;
  for (uint64_t i = 0; i < items; ++i) {
    if (offsets[i] > offsets[i + 1]) return false;
  }
  return true;
}

}  // namespace

int64_t CountItems(std::span<const int64_t> dims) {
  int64_t items = 1;
  for (const int64_t dim : dims) items *= dim;
  return items;
}

uint64_t BytesOfItems(DType type, std::span<const int64_t> dims) {
  return static_cast<uint64_t>(CountItems(dims)) * BytesOf(type);
}

FrameLayout LayOut(std::span<const FrameLeaf> leaves) {
  FrameLayout layout;
  layout.meta_bytes = sizeof(Header);
  for (const FrameLeaf& leaf : leaves) {
    layout.meta_bytes += sizeof(Descriptor) + leaf.dims.size() * sizeof(int64_t);
  }
  layout.bytes = RoundUp(layout.meta_bytes);
  for (const FrameLeaf& leaf : leaves) {
    layout.offsets.push_back(layout.bytes);
    layout.bytes = RoundUp(layout.bytes + leaf.bytes);
  }
  return layout;
}

void WriteHead(std::byte* frame, std::span<const FrameLeaf> leaves, const FrameLayout& layout,
               uint64_t spec_hash, int64_t segment, int64_t index) {
  LOCKSTEP_DCHECK(layout.offsets.size() == leaves.size());
  Header header = {.magic = kFrameMagic,
                   .version = kFrameVersion,
                   .spec_hash = spec_hash,
                   .segment = segment,
                   .index = index,
                   .leaves = static_cast<uint32_t>(leaves.size()),
                   .meta_bytes = static_cast<uint32_t>(layout.meta_bytes),
                   .bytes = layout.bytes};
  std::memcpy(frame, &header, sizeof(header));
  std::byte* to = frame + sizeof(header);
  const auto clear = [&](uint64_t from) { std::memset(frame + from, 0, RoundUp(from) - from); };
  for (size_t i = 0; i < leaves.size(); ++i) {
    const FrameLeaf& leaf = leaves[i];
    const Code code = CodeOf(leaf.type);
    Descriptor descriptor = {.code = code.code,
                             .bits = code.bits,
                             .lanes = 1,
                             .rank = static_cast<uint16_t>(leaf.dims.size()),
                             .offset = layout.offsets[i],
                             .bytes = leaf.bytes};
    if (plan::IsVariable(leaf.type)) descriptor.flags = kFlagOffsets;
    if (leaf.type == DType::kText) descriptor.flags |= kFlagText;
    std::memcpy(to, &descriptor, sizeof(descriptor));
    to += sizeof(descriptor);
    if (leaf.dims.empty()) continue;
    std::memcpy(to, leaf.dims.data(), leaf.dims.size() * sizeof(int64_t));
    to += leaf.dims.size() * sizeof(int64_t);
  }
  clear(layout.meta_bytes);
  for (size_t i = 0; i < leaves.size(); ++i) clear(layout.offsets[i] + leaves[i].bytes);
  header.crc = Checksum(frame, layout.meta_bytes);
  std::memcpy(frame, &header, sizeof(header));
}

void Seal(std::span<std::byte> frame) {
  if (frame.size() < sizeof(Header)) return;
  Header header;
  std::memcpy(&header, frame.data(), sizeof(header));
  if (header.meta_bytes < sizeof(Header) || header.meta_bytes > frame.size()) return;
  header.crc = Checksum(frame.data(), header.meta_bytes);
  std::memcpy(frame.data(), &header, sizeof(header));
}

int64_t LeafView::items() const { return CountItems(dims); }

std::string_view LeafView::item(int64_t i) const {
  LOCKSTEP_CHECK(plan::IsVariable(type) && i >= 0 && i < items());
  const auto* offsets = reinterpret_cast<const int64_t*>(bytes.data());
  const auto* values = reinterpret_cast<const char*>(offsets + items() + 1);
  return {values + offsets[i], static_cast<size_t>(offsets[i + 1] - offsets[i])};
}

absl::StatusOr<ElementView> ElementView::Parse(std::span<const std::byte> frame) {
  if (reinterpret_cast<uintptr_t>(frame.data()) % alignof(int64_t) != 0) {
    return absl::InvalidArgumentError("a frame must begin on a multiple of 8 bytes");
  }
  if (frame.size() < sizeof(Header)) return Damaged("it is too short");
  Header header;
  std::memcpy(&header, frame.data(), sizeof(header));
  if (header.magic != kFrameMagic) return Damaged("it begins otherwise");
  if (header.version != kFrameVersion) {
    return absl::DataLossError(absl::StrCat("the element's frame is of version ", header.version,
                                            ", and this program knows ", kFrameVersion));
  }
  if (header.bytes != frame.size()) return Damaged("it has another length than it says");
  if (header.leaves > kFrameLeavesMax || header.meta_bytes < sizeof(Header) ||
      header.meta_bytes > frame.size()) {
    return Damaged("its head is out of bounds");
  }
  if (Checksum(frame.data(), header.meta_bytes) != header.crc)
    return Damaged("its checksum differs");

  ElementView view;
  view.spec_hash_ = header.spec_hash;
  view.segment_ = header.segment;
  view.index_ = header.index;
  uint64_t at = sizeof(header);
  for (uint32_t i = 0; i < header.leaves; ++i) {
    Descriptor descriptor;
    if (header.meta_bytes - at < sizeof(descriptor)) return Damaged("a leaf is missing");
    std::memcpy(&descriptor, frame.data() + at, sizeof(descriptor));
    at += sizeof(descriptor);
    LeafView leaf;
    if (!TypeOf(descriptor, leaf.type)) return Damaged("a leaf is of an unknown type");
    const uint64_t dims_bytes = descriptor.rank * sizeof(int64_t);
    if (descriptor.rank > kFrameRankMax || header.meta_bytes - at < dims_bytes) {
      return Damaged("a leaf has too many dimensions");
    }
    leaf.dims = {reinterpret_cast<const int64_t*>(frame.data() + at), descriptor.rank};
    at += dims_bytes;
    if (descriptor.offset % kFrameAlignment != 0 || descriptor.offset < header.meta_bytes ||
        descriptor.offset > frame.size() || descriptor.bytes > frame.size() - descriptor.offset) {
      return Damaged("a leaf lies outside");
    }
    leaf.bytes = frame.subspan(descriptor.offset, descriptor.bytes);
    uint64_t items = 0;
    if (!Count(leaf.dims, items)) return Damaged("a leaf has no sound shape");
    const bool sound = plan::IsVariable(leaf.type)
                           ? OffsetsAreSound(leaf.bytes, items)
                           : items * BytesOf(leaf.type) == leaf.bytes.size();
    if (!sound) return Damaged("a leaf has another length than its shape");
    view.leaves_.push_back(leaf);
  }
  if (at != header.meta_bytes) return Damaged("something follows the last leaf");
  return view;
}

}  // namespace lockstep::engine

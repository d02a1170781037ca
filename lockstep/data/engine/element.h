// The frame: what an element is in memory, in a cache and on the wire, byte for byte.
//
//   header, 64 bytes   magic "LSEF", version, flags; hash of the spec; segment; index within it;
//                      number of leaves; bytes of header and meta; bytes of the whole frame;
//                      CRC-32C of header and meta
//   meta               for each leaf 32 bytes (DLPack's type, dimensions, flags, offset, bytes),
//   then
//                      its dimensions as int64
//   leaves             each on a multiple of 64 bytes from the frame's start, C order. Text and
//   bytes:
//                      int64 offsets, one more than there are items, then the values
//
// All numbers are little-endian. Names are not in it: they are the spec's, in its order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/data/plan/definition.h"

namespace lockstep::engine {

inline constexpr uint32_t kFrameMagic = 0x4645534C;  // "LSEF"
inline constexpr uint16_t kFrameVersion = 1;
inline constexpr size_t kFrameAlignment = 64;
inline constexpr size_t kFrameHeaderBytes = 64;
inline constexpr size_t kFrameBytesAt = 40;  // where the header says how long the whole is
inline constexpr size_t kLeafDescriptorBytes = 32;
// `frame_leaves_max`, `frame_rank_max`.
inline constexpr size_t kFrameLeavesMax = 1024;
inline constexpr size_t kFrameRankMax = 32;

// Writable memory of a frame. What kind it is, is known to whoever made it.
class Memory {
 public:
  // The derived class owns the bytes, and gives them back when it is destroyed.
  Memory(std::byte* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }  // at a multiple of kFrameAlignment
  uint64_t bytes() const { return bytes_; }  // at least as many as were asked for

 private:
  std::byte* const data_;
  const uint64_t bytes_;
};

// At least so many bytes, aligned to 64, not zeroed. Called on the thread that runs the segment.
using Allocator = std::function<absl::StatusOr<std::shared_ptr<Memory>>(uint64_t bytes)>;
// Plain memory of this process; large blocks are kept for the next ones, since fresh pages cost
// more than copying.
Allocator HeapAllocator();

// One leaf, within a frame that outlives it.
struct LeafView {
  plan::DType type = plan::DType::kInt64;
  std::span<const int64_t> dims;
  std::span<const std::byte> bytes;  // of text and bytes: offsets and values, as in the frame

  int64_t items() const;  // product of the dimensions
  // Of text and bytes only; i < items().
  std::string_view item(int64_t i) const;
};

// A frame that was looked at as a whole: every offset, length and dimension is within bounds.
class ElementView {
 public:
  // The bytes must stay; they begin on a multiple of 8. DATA_LOSS: not a frame, or damaged. Leaves
  // themselves carry no checksum.
  static absl::StatusOr<ElementView> Parse(std::span<const std::byte> frame);

  uint64_t spec_hash() const { return spec_hash_; }            // HashOf the spec of its leaves
  int64_t segment() const { return segment_; }                 // of its dataset
  int64_t index() const { return index_; }                     // of the element, within its segment
  size_t leaves() const { return leaves_.size(); }             // how many; at most kFrameLeavesMax
  const LeafView& leaf(size_t i) const { return leaves_[i]; }  // i < leaves()

 private:
  uint64_t spec_hash_ = 0;
  int64_t segment_ = 0;
  int64_t index_ = 0;
  std::vector<LeafView> leaves_;
};

// One frame and what keeps it alive. Copies share it.
class Element {
 public:
  Element() = default;
  // `bytes` of the memory from `offset` on, a multiple of kFrameAlignment. Looks at none of them.
  Element(std::shared_ptr<Memory> memory, uint64_t offset, uint64_t bytes)
      : memory_(std::move(memory)), offset_(offset), bytes_(bytes) {}

  // Not for an element without a memory.
  std::span<const std::byte> frame() const { return {memory_->data() + offset_, bytes_}; }
  uint64_t bytes() const { return bytes_; }  // of the frame; 0 without a memory
  // Small frames share a memory with their neighbours.
  const std::shared_ptr<Memory>& memory() const { return memory_; }
  uint64_t offset() const { return offset_; }  // of the frame in `memory()`
  // As ElementView::Parse; the view is good for as long as this element, or a copy, lives.
  absl::StatusOr<ElementView> Parse() const { return ElementView::Parse(frame()); }

 private:
  std::shared_ptr<Memory> memory_;
  uint64_t offset_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace lockstep::engine

// Writing frames: where everything goes, then the head. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/data/engine/element.h"
#include "lockstep/data/plan/definition.h"

namespace lockstep::engine {

// A leaf to be written.
struct FrameLeaf {
  plan::DType type = plan::DType::kInt64;
  std::vector<int64_t> dims;
  uint64_t bytes = 0;  // of text and bytes with their offsets
};

// Where everything lies in the frame, in bytes from its beginning.
struct FrameLayout {
  std::vector<uint64_t> offsets;  // of each leaf
  uint64_t meta_bytes = 0;        // header and meta, as the checksum covers them
  uint64_t bytes = 0;             // the whole; a multiple of 64
};

// In the order of the leaves, each on a multiple of kFrameAlignment.
FrameLayout LayOut(std::span<const FrameLeaf> leaves);

// Header, meta and the gaps between leaves; the leaves are the caller's.
void WriteHead(std::byte* frame, std::span<const FrameLeaf> leaves, const FrameLayout& layout,
               uint64_t spec_hash, int64_t segment, int64_t index);

// Puts the checksum into a head that somebody else wrote; nothing when its lengths are out of
// bounds.
void Seal(std::span<std::byte> frame);

// What so many items of a fixed type take.
uint64_t BytesOfItems(plan::DType type, std::span<const int64_t> dims);
int64_t CountItems(std::span<const int64_t> dims);

}  // namespace lockstep::engine

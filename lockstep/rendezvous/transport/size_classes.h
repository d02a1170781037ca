// How large the blocks are that the arena gives out for a number of bytes. Pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace lockstep::transport {

// Of every block: a cache line, which is what frameworks want of a tensor.
inline constexpr uint64_t kBlockAlignment = 64;
// Of blocks from this size on. Of the arena, whatever the pages of the system are.
inline constexpr uint64_t kPageBytes = 4096;

constexpr uint64_t RoundUp(uint64_t bytes, uint64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// The smallest class that holds `bytes`: four classes between two powers of two, so that at most a
// quarter of what was asked for is wasted; or less than a cache line, or from a page on less than a
// page, where alignment wants it. `bytes` is at most 2^62.
constexpr uint64_t ClassBytes(uint64_t bytes) {
  if (bytes <= kBlockAlignment) return kBlockAlignment;
  const uint64_t step = std::bit_floor(bytes - 1) / 4;
  const uint64_t size = RoundUp(bytes, std::max(step, kBlockAlignment));
  return size < kPageBytes ? size : RoundUp(size, kPageBytes);
}

}  // namespace lockstep::transport

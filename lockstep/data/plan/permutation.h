// A permutation of 0..n-1 in closed form, chosen by a key. Pure.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "lockstep/data/plan/hash.h"

namespace lockstep::plan {

// A Feistel network over the next power of two, walked until it is back below n: fewer than two
// times on average. No memory, no history.
class Permutation {
 public:
  // Of 0..size-1. The same size and key make the same permutation in every version.
  Permutation(uint64_t size, uint64_t key)
      : size_(size), low_bits_(BitsOf(size) / 2), high_bits_(BitsOf(size) - low_bits_) {
    for (size_t i = 0; i < keys_.size(); ++i) keys_[i] = Mix(key, i);
  }

  // `index` < size.
  uint64_t operator()(uint64_t index) const {
    if (size_ <= 1) return index;
    // Once walks in cycles over the power of two, so it comes back below `size`.
    do index = Once(index);
    while (index >= size_);
    return index;
  }

 private:
  static constexpr size_t kRounds = 8;

  // Two at least, so that both halves have some.
  static int BitsOf(uint64_t size) {
    return size <= 4 ? 2 : static_cast<int>(std::bit_width(size - 1));
  }

  static uint64_t Round(uint64_t half, uint64_t key, int bits) {
    uint64_t x = (half ^ key) * 0x9E3779B97F4A7C15;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93;
    return x >> (64 - bits);
  }

  // The halves may differ in length by a bit: each is changed by the other in turn.
  uint64_t Once(uint64_t index) const {
    uint64_t low = index & ((uint64_t{1} << low_bits_) - 1);
    uint64_t high = index >> low_bits_;
    for (size_t i = 0; i < kRounds; i += 2) {
      high ^= Round(low, keys_[i], high_bits_);
      low ^= Round(high, keys_[i + 1], low_bits_);
    }
    return high << low_bits_ | low;
  }

  const uint64_t size_;
  const int low_bits_;
  const int high_bits_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace lockstep::plan

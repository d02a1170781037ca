// Hashes that stay the same for ever: identities and frames carry them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::plan {

uint64_t Hash64(std::string_view bytes);      // XXH3-64
std::string Hash128(std::string_view bytes);  // XXH3-128, 16 bytes, canonical order
// Two digits a byte, lower case.
std::string ToHex(std::string_view bytes);

// A well-mixed function of both.
constexpr uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9E3779B97F4A7C15)) * 0xBF58476D1CE4E5B9;
  x ^= x >> 31;
  x = (x + b) * 0x94D049BB133111EB;
  x ^= x >> 29;
  x *= 0xD6E8FEB86659FD93;
  return x ^ (x >> 32);
}

}  // namespace lockstep::plan

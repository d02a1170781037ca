// Whether bytes are text. Pure.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace lockstep::engine {

// Without overlong forms, surrogates, and what lies beyond U+10FFFF.
inline bool IsUtf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    uint64_t word = 0;
    if (text.size() - i >= sizeof(word)) {
      std::memcpy(&word, text.data() + i, sizeof(word));
      if ((word & 0x8080808080808080) == 0) {
        i += sizeof(word);
        continue;
      }
    }
    const auto first = static_cast<uint8_t>(text[i]);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4 || text.size() - i <= more) return false;
    uint32_t point = first & (0x3F >> more);
    for (size_t k = 1; k <= more; ++k) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
    if (point < kLeast[more] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) {
      return false;
    }
    i += more + 1;
  }
  return true;
}

}  // namespace lockstep::engine

// Values whose bytes say which value they are: of which step, key and number. Tests only.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "lockstep/base/crc32c.h"

namespace lockstep::faults {

// The bytes of one value. Of two values that differ in anything, all differ.
inline std::string MakeContent(int64_t step, std::string_view key, int64_t number, size_t bytes) {
  uint64_t state = static_cast<uint64_t>(step) * 0x9e3779b97f4a7c15 + Crc32c(0, key);
  state = (state ^ static_cast<uint64_t>(number)) * 0xd1342543de82ef95 + bytes;
  std::string content(bytes, '\0');
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    uint64_t word = (state += 0x9e3779b97f4a7c15);
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    word ^= word >> 31;
    std::memcpy(content.data() + at, &word, std::min(sizeof(word), bytes - at));
  }
  return content;
}

// Whether these are that value's bytes, by their checksum and length.
inline bool IsContent(std::string_view bytes, int64_t step, std::string_view key, int64_t number) {
  return Crc32c(0, bytes) == Crc32c(0, MakeContent(step, key, number, bytes.size()));
}

}  // namespace lockstep::faults

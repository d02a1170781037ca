// TFRecord's framing: length, its checksum, the bytes, their checksum. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "lockstep/base/crc32c.h"

namespace lockstep::engine {

inline constexpr size_t kTfRecordHeadBytes = 12;
inline constexpr size_t kTfRecordExtraBytes = 16;

// A checksum as it stands in the file.
inline uint32_t TfRecordChecksum(std::string_view bytes) {
  const uint32_t crc = Crc32c(0, bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

// What the head says; none: it is cut off or damaged.
inline std::optional<uint64_t> TfRecordLength(std::string_view head) {
  if (head.size() < kTfRecordHeadBytes) return std::nullopt;
  uint64_t length = 0;
  uint32_t checksum = 0;
  std::memcpy(&length, head.data(), sizeof(length));
  std::memcpy(&checksum, head.data() + sizeof(length), sizeof(checksum));
  if (TfRecordChecksum(head.substr(0, sizeof(length))) != checksum) return std::nullopt;
  return length;
}

}  // namespace lockstep::engine

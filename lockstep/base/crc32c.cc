#include "lockstep/base/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace lockstep {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // reflected
constexpr size_t kSlices = 8;

using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

// kTables[s][b]: what byte b contributes when s bytes follow it in the same step.
constexpr Tables MakeTables() {
  Tables tables = {};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][b] = crc;
  }
  for (size_t s = 1; s < kSlices; ++s) {
    for (size_t b = 0; b < 256; ++b) {
      const uint32_t previous = tables[s - 1][b];
      tables[s][b] = (previous >> 8) ^ tables[0][previous & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

uint32_t WithTables(uint32_t crc, std::string_view bytes) {
  while (bytes.size() >= kSlices) {
    uint32_t next = 0;
    for (size_t i = 0; i < kSlices; ++i) {
      const uint32_t mixed = i < 4 ? (crc >> (8 * i)) : 0;
      next ^= kTables[kSlices - 1 - i][(static_cast<uint8_t>(bytes[i]) ^ mixed) & 0xFF];
    }
    crc = next;
    bytes.remove_prefix(kSlices);
  }
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  }
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t WithInstruction(uint32_t crc, std::string_view bytes) {
  uint64_t wide = crc;
  while (bytes.size() >= sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    wide = __builtin_ia32_crc32di(wide, word);
    bytes.remove_prefix(sizeof(word));
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (const char byte : bytes) {
    narrow = __builtin_ia32_crc32qi(narrow, static_cast<uint8_t>(byte));
  }
  return narrow;
}

bool HasInstruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}
#endif

}  // namespace

uint32_t Crc32c(uint32_t crc, std::string_view bytes) {
#if defined(__x86_64__)
  if (HasInstruction()) return ~WithInstruction(~crc, bytes);
#endif
  return ~WithTables(~crc, bytes);
}

namespace internal {
uint32_t Crc32cWithTables(uint32_t crc, std::string_view bytes) { return ~WithTables(~crc, bytes); }
}  // namespace internal

}  // namespace lockstep

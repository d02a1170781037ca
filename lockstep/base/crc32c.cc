#include "lockstep/base/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace lockstep {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // reflected
constexpr size_t kSlices = 8;
static_assert(kSlices > sizeof(uint32_t));  // the first bytes of a step take the checksum in

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
// The instruction takes three cycles, and one can begin in each of them. So long pieces are read as
// three lanes at a time, whose checksums are put together by what zeros behind the first two would
// have made of theirs.
constexpr size_t kLaneBytes = 1024;
static_assert(kLaneBytes % sizeof(uint64_t) == 0);

// What a checksum becomes when `zeros` bytes of zero follow, by its bytes: a sum of four entries.
using Shift = std::array<std::array<uint32_t, 256>, 4>;

constexpr Shift MakeShift(size_t zeros) {
  std::array<uint32_t, 32> of_bit = {};
  for (size_t bit = 0; bit < of_bit.size(); ++bit) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < zeros; ++i) crc = (crc >> 8) ^ kTables[0][crc & 0xFF];
    of_bit[bit] = crc;
  }
  Shift shift = {};
  for (size_t byte = 0; byte < shift.size(); ++byte) {
    for (size_t value = 0; value < 256; ++value) {
      for (size_t bit = 0; bit < 8; ++bit) {
        if ((value >> bit & 1) != 0) shift[byte][value] ^= of_bit[8 * byte + bit];
      }
    }
  }
  return shift;
}

constexpr Shift kOneLane = MakeShift(kLaneBytes);
constexpr Shift kTwoLanes = MakeShift(2 * kLaneBytes);

uint32_t Shifted(const Shift& shift, uint32_t crc) {
  return shift[0][crc & 0xFF] ^ shift[1][crc >> 8 & 0xFF] ^ shift[2][crc >> 16 & 0xFF] ^
         shift[3][crc >> 24];
}

uint64_t WordAt(const char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) uint32_t ThreeLanesWithInstruction(uint32_t crc,
                                                                     const char* bytes) {
  uint64_t first = crc;
  uint64_t second = 0;
  uint64_t third = 0;
  for (size_t i = 0; i < kLaneBytes; i += sizeof(uint64_t)) {
    first = __builtin_ia32_crc32di(first, WordAt(bytes + i));
    second = __builtin_ia32_crc32di(second, WordAt(bytes + kLaneBytes + i));
    third = __builtin_ia32_crc32di(third, WordAt(bytes + 2 * kLaneBytes + i));
  }
  return Shifted(kTwoLanes, static_cast<uint32_t>(first)) ^
         Shifted(kOneLane, static_cast<uint32_t>(second)) ^ static_cast<uint32_t>(third);
}

__attribute__((target("sse4.2"))) uint32_t WithInstruction(uint32_t crc, std::string_view bytes) {
  for (; bytes.size() >= 3 * kLaneBytes; bytes.remove_prefix(3 * kLaneBytes)) {
    crc = ThreeLanesWithInstruction(crc, bytes.data());
  }
  uint64_t wide = crc;
  while (bytes.size() >= sizeof(uint64_t)) {
    wide = __builtin_ia32_crc32di(wide, WordAt(bytes.data()));
    bytes.remove_prefix(sizeof(uint64_t));
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

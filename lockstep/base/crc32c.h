// CRC-32C (Castagnoli), which frames and the journal carry. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

// The checksum of everything given so far (`crc`, 0 at first) followed by `bytes`.
uint32_t Crc32c(uint32_t crc, std::string_view bytes);

namespace internal {
// Without the processor's instruction, which `Crc32c` uses where there is one: both must agree.
uint32_t Crc32cWithTables(uint32_t crc, std::string_view bytes);
}  // namespace internal

}  // namespace lockstep

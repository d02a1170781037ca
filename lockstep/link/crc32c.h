// CRC-32C (Castagnoli), which every frame carries. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::link {

// The checksum of everything given so far (`crc`, 0 at first) followed by `bytes`.
uint32_t Crc32c(uint32_t crc, std::string_view bytes);

}  // namespace lockstep::link

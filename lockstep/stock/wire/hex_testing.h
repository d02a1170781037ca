// Bytes as they stand in the tables of the wire contract: "0a 01 6b". Tests only.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::wire::stock {

inline std::string FromHex(std::string_view text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size();) {
    if (text[i] == ' ') {
      ++i;
      continue;
    }
    bytes.push_back(static_cast<char>(digit(text[i]) << 4 | digit(text[i + 1])));
    i += 2;
  }
  return bytes;
}

// What the vectors were made with.
inline constexpr unsigned long long kTaskIncarnation = 0x0102030405060708;
inline constexpr unsigned long long kServiceIncarnation = 0x1112131415161718;
inline constexpr std::string_view kIncarnationsHex =
    "0a 12 11 08 07 06 05 04 03 02 01 19 18 17 16 15 14 13 12 11";

}  // namespace lockstep::wire::stock

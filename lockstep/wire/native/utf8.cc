#include "lockstep/wire/native/utf8.h"

#include <cstddef>
#include <cstdint>

namespace lockstep::wire::native {
namespace {

// Bytes of the character that `text` begins with; 0 when it begins with none.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) -> uint8_t {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : 0;
  };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t lead = byte(0);
  const uint8_t second = byte(1);
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // a continuation, or an overlong form of ASCII
  if (lead < 0xE0) return continues(1) ? 2 : 0;
  if (lead < 0xF0) {
    if (lead == 0xE0 && second < 0xA0) return 0;   // overlong
    if (lead == 0xED && second >= 0xA0) return 0;  // surrogate
    return continues(1) && continues(2) ? 3 : 0;
  }
  if (lead > 0xF4) return 0;
  if (lead == 0xF0 && second < 0x90) return 0;   // overlong
  if (lead == 0xF4 && second >= 0x90) return 0;  // above U+10FFFF
  return continues(1) && continues(2) && continues(3) ? 4 : 0;
}

}  // namespace

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string ToUtf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) {
      result += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    } else {
      result.append(text.substr(0, length));
      text.remove_prefix(length);
    }
  }
  return result;
}

}  // namespace lockstep::wire::native

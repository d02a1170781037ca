// UTF-8 as protobuf demands it of strings: no overlong forms, no surrogates, nothing above
// U+10FFFF. Pure.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::wire::native {

bool IsUtf8(std::string_view text);

// `text` with each byte that is not part of a valid character replaced by U+FFFD.
std::string ToUtf8(std::string_view text);

}  // namespace lockstep::wire::native

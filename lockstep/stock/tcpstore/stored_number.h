// Numbers as clients of a store count with them: texts under keys. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace lockstep::tcpstore {

// As C's strtoll reads it: blanks, a sign, and as many digits as there are, at least one. Nothing:
// it is no number, or one beyond 64 bits.
std::optional<int64_t> NumberIn(absl::string_view text);

// Past the last number comes the first, as in torch's server.
inline int64_t AddAround(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace lockstep::tcpstore

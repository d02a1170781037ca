#include "lockstep/stock/tcpstore/stored_number.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "lockstep/base/check.h"

namespace lockstep::tcpstore {

std::optional<int64_t> NumberIn(absl::string_view text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  const bool negative = !text.empty() && text.front() == '-';
  if (negative || (!text.empty() && text.front() == '+')) text.remove_prefix(1);
  // There is one negative number more than there are positive ones.
  const uint64_t most = (uint64_t{1} << 63) - (negative ? 0 : 1);
  uint64_t number = 0;
  size_t digits = 0;
  for (const char c : text) {
    // What follows the digits does not matter, as with torch's own server.
    if (c < '0' || c > '9') break;
    const uint64_t digit = static_cast<uint64_t>(c - '0');
    // Before it overflows: a number that does not fit is none.
    if (number > (most - digit) / 10) return std::nullopt;
    number = number * 10 + digit;
    ++digits;
  }
  if (digits == 0) return std::nullopt;
  LOCKSTEP_DCHECK(number <= most);
  return static_cast<int64_t>(negative ? ~number + 1 : number);
}

}  // namespace lockstep::tcpstore

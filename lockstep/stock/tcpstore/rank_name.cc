#include "lockstep/stock/tcpstore/rank_name.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "lockstep/base/limits.h"

namespace lockstep::tcpstore {

std::optional<int32_t> RankOfKey(absl::string_view key) {
  size_t digits = key.size();
  while (digits > 0 && absl::ascii_isdigit(static_cast<unsigned char>(key[digits - 1]))) --digits;
  const absl::string_view before = key.substr(0, digits);
  int32_t rank = 0;
  // No digits at the end, or more than a rank can have.
  if (!absl::SimpleAtoi(key.substr(digits), &rank) || rank >= kMembersMax) return std::nullopt;
  // "rank_3" and ".../3" are a rank's; "port8080" and "v2" are not.
  if (before.empty() || (before.back() != '/' && before.back() != '_')) return std::nullopt;
  return rank;
}

}  // namespace lockstep::tcpstore

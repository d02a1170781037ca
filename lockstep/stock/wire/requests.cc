#include "lockstep/stock/wire/requests.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/limits.h"

namespace lockstep::wire::stock {

absl::StatusCode ErrorCodeOf(int32_t code) {
  const bool known = code > 0 && code <= static_cast<int32_t>(absl::StatusCode::kUnauthenticated);
  return known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown;
}

coord::ErrorPtr NotAMessage(std::string_view method, std::string_view message) {
  return coord::MakeError(
      absl::StatusCode::kInvalidArgument, coord::Reason::kInvalidArgument,
      absl::StrCat("The bytes sent as ", std::string(method), " are not a ", std::string(message),
                   " message (or a key in it is not UTF-8). Nothing was changed."));
}

coord::ErrorPtr CheckListed(std::string_view method, int listed) {
  if (listed <= kMembersMax) return nullptr;
  return coord::MakeError(
      absl::StatusCode::kResourceExhausted, coord::Reason::kLimitExceeded,
      absl::StrFormat("%s lists %d tasks; a job has at most %d (members_max). Nothing was changed.",
                      std::string(method), listed, kMembersMax));
}

}  // namespace lockstep::wire::stock

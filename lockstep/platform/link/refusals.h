// Why a link was not made, for who decides whether to dial again. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "absl/status/status.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::link {

// Whether dialling again would end the same: the programs do not understand each other, or one does
// not accept the other.
inline bool IsHopeless(const absl::Status& why) {
  constexpr std::array kReasons = {"version",
                                   "not_allowed",
                                   "tls_required",
                                   "certificate_refused",
                                   "certificate_required",
                                   "token_required",
                                   "token_in_clear",
                                   "token_invalid",
                                   "token_unknown_key",
                                   "token_expired",
                                   "token_account_unknown",
                                   "token_file"};
  const std::string reason = wire::native::ReasonOf(why);
  return absl::IsInvalidArgument(why) ||
         std::any_of(kReasons.begin(), kReasons.end(),
                     [&](const char* one) { return reason == one; });
}

// Whether it is only that another server leads, or is about to: a later search may find it.
inline bool LeadsNot(const absl::Status& why) {
  const std::string reason = wire::native::ReasonOf(why);
  return reason == "not_leader" || reason == "stale_leader";
}

// Whether the server could only not decide at that moment: the same client may be welcome soon.
inline bool IsUndecided(const std::string& reason) {
  return reason == "token_review_failed" || reason == "token_reviews_full";
}

}  // namespace lockstep::link

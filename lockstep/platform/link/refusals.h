// Why a link was not made, for who decides whether to dial again. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "absl/status/status.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::link {

// The server's certificate is not what the address names.
inline constexpr char kCertificateRefused[] = "certificate_refused";
// The server takes no connection without TLS.
inline constexpr char kTlsRequired[] = "tls_required";

// Whether dialling again would end the same: the programs do not understand each other, or one does
// not accept the other.
inline bool IsHopeless(const absl::Status& why) {
  constexpr std::array kReasons = {"version", "not_allowed", kTlsRequired, kCertificateRefused};
  const std::string reason = wire::native::ReasonOf(why);
  return absl::IsInvalidArgument(why) ||
         std::any_of(kReasons.begin(), kReasons.end(),
                     [&](const char* one) { return reason == one; });
}

}  // namespace lockstep::link

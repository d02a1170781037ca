// What tests of servers that other hosts may reach have in common. Tests only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lockstep/platform/tls/calls.h"
#include "lockstep/platform/tls/certificates.h"
#include "lockstep/platform/tls/openssl.h"
#include "lockstep/server/server.h"

namespace lockstep::server {

// Lets this process's own clients connect over TLS. Installs that once, whichever test comes first:
// what is replaced would leak.
inline void CallByTls() {
  static const bool installed = [] {
    tls::InstallSecureCalls([] { return &tls::LinkedOpenSsl(); });
    return true;
  }();
  (void)installed;
}

// Of a certificate that is good for these names, and for now.
inline tls::CertificateOptions Named(std::vector<std::string> names) {
  const absl::Time now = absl::Now();
  return {.name = "test",
          .holds_for = std::move(names),
          .from = now - absl::Hours(1),
          .until = now + absl::Hours(1)};
}

// Empty: the server has none.
inline std::string JoinStringOf(const Server& server) {
  constexpr char kBegin[] = "join string: ";
  for (const std::string& line : server.AddressLines()) {
    if (absl::StartsWith(line, kBegin)) return std::string(absl::StripPrefix(line, kBegin));
  }
  return "";
}

}  // namespace lockstep::server

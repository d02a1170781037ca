// Makes certificates: of an authority, of a server, of a server that has no authority. Only in
// programs that are linked with OpenSSL.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/platform/tls/context.h"

namespace lockstep::tls {

// What stands in a certificate. All of them have keys on the curve P-256 and are signed with
// SHA-256.
struct CertificateOptions {
  std::string name;  // common name, for people
  // Host names, numbers of hosts and URIs (`spiffe://...`) for which it holds.
  std::vector<std::string> holds_for;
  absl::Time from;
  absl::Time until;
};

// For servers and clients at once; nobody has signed it but itself.
absl::StatusOr<Identity> MakeSelfSigned(const CertificateOptions& options);
// May sign others, and is for nothing else.
absl::StatusOr<Identity> MakeAuthority(const CertificateOptions& options);
enum class UsedBy { kServer, kClient };
// Signed by that authority, whose certificate follows it.
absl::StatusOr<Identity> MakeSigned(const CertificateOptions& options, UsedBy by,
                                    const Identity& authority);

// SHA-256 of the first certificate of the text, as 64 hexadecimal digits.
absl::StatusOr<std::string> FingerprintOf(const std::string& certificates);
// The same of the last one.
absl::StatusOr<std::string> FingerprintOfLast(const std::string& certificates);

}  // namespace lockstep::tls

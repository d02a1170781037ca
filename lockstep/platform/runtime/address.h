// HOST:PORT as people write it, and the join string that also names a job and a certificate. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep::runtime {

// A name or a number, not looked up. IPv6 numbers are written in brackets: [::1]:7070.
struct Address {
  std::string host;
  uint16_t port = 0;
  // SHA-256 of the certificate by which who listens there is known, or of the authority that signed
  // it, as 64 lower-case hexadecimal digits. Empty: connections there are made without TLS.
  std::string fingerprint = {};

  friend bool operator==(const Address&, const Address&) = default;
};

// HOST:PORT, or the address in a join string. INVALID_ARGUMENT says what is wrong with `text` and
// how it should look.
absl::StatusOr<Address> ParseAddress(std::string_view text);

// HOST:PORT, for people, who know what they called.
std::string ToString(const Address& address);

// All that a program needs to know in order to join: `lockstep://HOST:PORT/JOB#sha256=DIGITS`, or
// only HOST:PORT, or that with either of the others.
struct JoinString {
  Address address;
  std::string job;  // empty: none is named
};
// Errors as ParseAddress.
absl::StatusOr<JoinString> ParseJoinString(std::string_view text);
// What `ParseJoinString` takes: HOST:PORT where there is neither a job nor a certificate.
std::string ToString(const JoinString& join);

}  // namespace lockstep::runtime

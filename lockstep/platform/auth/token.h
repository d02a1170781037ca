// What a token says, and its text. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/kind.h"

namespace lockstep::auth {

// The names of roles, as people give them: "observe", "task", "launch", "worker", "operator".
std::string RoleName(wire::native::Role role);
// INVALID_ARGUMENT lists the names.
absl::StatusOr<wire::native::Role> ParseRole(std::string_view name);

// What whoever has the token may do.
struct Claims {
  wire::native::Role role = wire::native::Role::kUnspecified;
  std::string job;   // empty: all jobs
  absl::Time until;  // whole seconds
  std::string key;   // names the key that it is signed with

  friend bool operator==(const Claims&, const Claims&) = default;
};

// `lst1.CLAIMS.SIGNATURE`, both base64url. A token is a secret: it stands in no error, log or
// event.
struct Token {
  Claims claims;
  std::string signed_text;  // what the signature is of
  std::string signature;    // raw
};

inline constexpr size_t kTokenBytesMax = 1024;  // those of others may be longer
static_assert(kTokenBytesMax <= wire::native::kTokenBytes.max);

// What a signature is made of. INVALID_ARGUMENT: the job has a name that no job can have.
absl::StatusOr<std::string> TextToSign(const Claims& claims);
std::string TokenText(std::string_view signed_text, std::string_view signature);

// Checks the form and nothing else: whoever can write can write a token. UNAUTHENTICATED,
// `token_invalid`, without a word of the text.
absl::StatusOr<Token> ParseToken(std::string_view text);

}  // namespace lockstep::auth

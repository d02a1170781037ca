// What two ends do with a secret that both have: prove to each other that they have it, and hide
// from others what they say.
//
// An interface, as that of secure_layer.h and for the same reason: lockstep/platform/tls implements
// it with the OpenSSL that the process has.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/secure_layer.h"

namespace lockstep::runtime {

// HMAC-SHA-256 of a text under a secret.
inline constexpr size_t kSecretHashBytes = 32;
using SecretHash = std::array<char, kSecretHashBytes>;
// Of a secret: random bytes, as many as the hash has.
inline constexpr size_t kSecretBytes = 32;

// Threads: any.
class SharedSecrets {
 public:
  virtual ~SharedSecrets() = default;

  // FAILED_PRECONDITION says why this process cannot: it has no OpenSSL.
  virtual absl::StatusOr<SecretHash> Hash(std::string_view secret, std::string_view text) const = 0;
  // Compares in a time that does not depend on where they differ. Errors as above.
  virtual absl::StatusOr<bool> Same(const SecretHash& one, const SecretHash& other) const = 0;

  // Makes an end of one connection.
  using MakeLayer = std::function<std::unique_ptr<SecureLayer>()>;
  // The calling and the accepting end of connections that are encrypted, TLS 1.3, and that only who
  // knows the secret can be the other end of. To be kept by who needs more than one: what they make
  // costs less than they do. Errors as above.
  virtual absl::StatusOr<MakeLayer> Call(std::string_view secret) const = 0;
  virtual absl::StatusOr<MakeLayer> Accept(std::string_view secret) const = 0;
};

// How this process does it: set once, before the first use; never null. Those that `Secrets` gives
// before that fail.
void SetSharedSecrets(std::unique_ptr<const SharedSecrets> secrets);
const SharedSecrets& Secrets();

}  // namespace lockstep::runtime

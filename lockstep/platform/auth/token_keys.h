// The keys that tokens are signed with (Ed25519, by OpenSSL).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/platform/auth/token.h"

namespace lockstep::auth {

// SHA-256, raw: by which a token is known again without being kept.
std::string DigestOf(std::string_view token);

// One or two keys: new tokens are signed with the first, and those of either are taken, so that a
// key can be replaced while tokens of the former are still about.
//
// Threads: immutable.
class TokenKeys {
 public:
  static constexpr size_t kKeysMax = 2;

  // A new private key, PEM.
  static absl::StatusOr<std::string> NewKey();
  // The first key of such a text, PEM. INVALID_ARGUMENT as Read.
  static absl::StatusOr<std::string> FirstOf(const std::string& pem);
  // Private keys, PEM, one behind the other. INVALID_ARGUMENT: there are none, or more than
  // kKeysMax, or they are of another sort.
  static absl::StatusOr<TokenKeys> Read(const std::string& pem);
  TokenKeys(TokenKeys&&) noexcept;
  TokenKeys& operator=(TokenKeys&&) noexcept;
  ~TokenKeys();

  // `claims.key` is filled in. INVALID_ARGUMENT as TextToSign.
  absl::StatusOr<std::string> Sign(Claims claims) const;

  // UNAUTHENTICATED: `token_invalid` (it is no token, or changed), `token_unknown_key` (another
  // server's, or its key was replaced twice), `token_expired`, by a clock that may be off by
  // kClockTolerance.
  absl::StatusOr<Claims> Verify(std::string_view token, absl::Time now) const;
  static constexpr absl::Duration kClockTolerance = absl::Seconds(30);

 private:
  struct Key;
  explicit TokenKeys(std::vector<std::unique_ptr<Key>> keys);
  std::vector<std::unique_ptr<Key>> keys_;
};

}  // namespace lockstep::auth

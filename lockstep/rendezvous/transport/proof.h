// How two members prove to each other that they belong to one attempt of a job, before either acts
// on anything else that the other sends. Pure.
//
// The secret is in the card of the member that listens, which only members of the job can read. The
// proof is the usual one of a shared secret (ISO/IEC 9798-4, three passes): each end answers a
// fresh random number of the other's with a hash of both numbers under the secret, HMAC-SHA-256. So
// what was heard once proves nothing again, what one end sends proves nothing for the other, and
// nobody learns the secret. What comes behind it on the connection is not protected by it:
// docs/formats/rendezvous.md.
//
//   listens                           dials
//      | ---- magic, number a ---------> |
//      | <--- number b, hash(1, a, b) -- |
//      | ---- hash(2, a, b) -----------> |
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/shared_secret.h"

namespace lockstep::transport {

inline constexpr size_t kProofNumberBytes = 32;
inline constexpr std::string_view kProofMagic = "LSPROOF1";
// What each message has, neither more nor less.
inline constexpr size_t kChallengeBytes = kProofMagic.size() + kProofNumberBytes;
inline constexpr size_t kProofBytes = kProofNumberBytes + runtime::kSecretHashBytes;
inline constexpr size_t kCounterproofBytes = runtime::kSecretHashBytes;

// Of the member that listens: one connection.
class ProofTaker {
 public:
  // `number`: fresh random bytes, kProofNumberBytes of them. `secrets`, `secret`: live as long.
  ProofTaker(const runtime::SharedSecrets& secrets, std::string_view secret, std::string number);

  // The first thing to send.
  std::string Challenge() const;
  // The answer to it; returns what to send then: the other is a member. PERMISSION_DENIED: it is
  // not. INVALID_ARGUMENT: that has not the length of a proof.
  absl::StatusOr<std::string> Take(std::string_view proof) const;

 private:
  const runtime::SharedSecrets& secrets_;
  const std::string_view secret_;
  const std::string number_;
};

// Of the member that dials: one connection.
class ProofGiver {
 public:
  // As above.
  ProofGiver(const runtime::SharedSecrets& secrets, std::string_view secret, std::string number);

  // The challenge that came; returns what to answer. INVALID_ARGUMENT: it is none.
  absl::StatusOr<std::string> Take(std::string_view challenge);
  // What came then. OK: the other is the member of the card. PERMISSION_DENIED: it is not.
  // INVALID_ARGUMENT: that has not the length of a counterproof, or no challenge came before.
  absl::Status TakeCounterproof(std::string_view counterproof) const;

 private:
  const runtime::SharedSecrets& secrets_;
  const std::string_view secret_;
  const std::string number_;
  std::string theirs_;  // empty: no challenge came
};

}  // namespace lockstep::transport

#include "lockstep/rendezvous/transport/proof.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::transport {
namespace {

using runtime::SecretHash;
using runtime::SharedSecrets;

// Who says it, so that nobody's own words are sent back to him as another's.
constexpr std::string_view kDials = "lockstep proof 1 dials";
constexpr std::string_view kListens = "lockstep proof 1 listens";
static_assert(kDials.size() != kListens.size());

std::string Text(std::string_view who, std::string_view listens, std::string_view dials) {
  std::string text(who);
  text.append(listens).append(dials);
  return text;
}

absl::StatusOr<std::string> Say(const SharedSecrets& secrets, std::string_view secret,
                                const std::string& text) {
  const auto hash = secrets.Hash(secret, text);
  if (!hash.ok()) return hash.status();
  return std::string(hash->begin(), hash->end());
}

absl::Status Check(const SharedSecrets& secrets, std::string_view secret, const std::string& text,
                   std::string_view said) {
  LOCKSTEP_DCHECK(said.size() == runtime::kSecretHashBytes);
  const auto hash = secrets.Hash(secret, text);
  if (!hash.ok()) return hash.status();
  SecretHash given = {};
  std::copy(said.begin(), said.end(), given.begin());
  const auto same = secrets.Same(*hash, given);
  if (!same.ok()) return same.status();
  return *same ? absl::OkStatus() : absl::PermissionDeniedError("it does not know the secret");
}

}  // namespace

ProofTaker::ProofTaker(const SharedSecrets& secrets, std::string_view secret, std::string number)
    : secrets_(secrets), secret_(secret), number_(std::move(number)) {
  LOCKSTEP_CHECK(secret_.size() == runtime::kSecretBytes && number_.size() == kProofNumberBytes);
}

std::string ProofTaker::Challenge() const { return std::string(kProofMagic).append(number_); }

absl::StatusOr<std::string> ProofTaker::Take(std::string_view proof) const {
  if (proof.size() != kProofBytes) return absl::InvalidArgumentError("that is no proof");
  const std::string_view theirs = proof.substr(0, kProofNumberBytes);
  absl::Status proven =
      Check(secrets_, secret_, Text(kDials, number_, theirs), proof.substr(kProofNumberBytes));
  if (!proven.ok()) return proven;
  return Say(secrets_, secret_, Text(kListens, number_, theirs));
}

ProofGiver::ProofGiver(const SharedSecrets& secrets, std::string_view secret, std::string number)
    : secrets_(secrets), secret_(secret), number_(std::move(number)) {
  LOCKSTEP_CHECK(number_.size() == kProofNumberBytes);
}

absl::StatusOr<std::string> ProofGiver::Take(std::string_view challenge) {
  if (challenge.size() != kChallengeBytes ||
      challenge.substr(0, kProofMagic.size()) != kProofMagic) {
    return absl::InvalidArgumentError("it did not ask for a proof of the secret");
  }
  theirs_ = challenge.substr(kProofMagic.size());
  auto said = Say(secrets_, secret_, Text(kDials, theirs_, number_));
  if (said.ok()) said->insert(0, number_);
  return said;
}

absl::Status ProofGiver::TakeCounterproof(std::string_view counterproof) const {
  if (counterproof.size() != kCounterproofBytes || theirs_.empty()) {
    return absl::InvalidArgumentError("that is no proof");
  }
  return Check(secrets_, secret_, Text(kListens, theirs_, number_), counterproof);
}

}  // namespace lockstep::transport

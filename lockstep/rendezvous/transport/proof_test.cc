#include "lockstep/rendezvous/transport/proof.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/platform/tls/openssl.h"
#include "lockstep/platform/tls/secrets.h"

namespace lockstep::transport {
namespace {

class Proof : public ::testing::Test {
 protected:
  ProofTaker Listens(char number = 'a') {
    return {*secrets_, secret_, std::string(kProofNumberBytes, number)};
  }
  ProofGiver Dials(char number = 'b') {
    return {*secrets_, secret_, std::string(kProofNumberBytes, number)};
  }

  const std::unique_ptr<const runtime::SharedSecrets> secrets_ =
      tls::MakeSharedSecrets([] { return &tls::LinkedOpenSsl(); });
  const std::string secret_ = std::string(runtime::kSecretBytes, 's');
};

TEST_F(Proof, TwoEndsWithOneSecretBelieveEachOther) {
  const ProofTaker listens = Listens();
  ProofGiver dials = Dials();
  const std::string challenge = listens.Challenge();
  EXPECT_EQ(challenge.size(), kChallengeBytes);
  const auto proof = dials.Take(challenge);
  ASSERT_TRUE(proof.ok()) << proof.status();
  EXPECT_EQ(proof->size(), kProofBytes);
  const auto counterproof = listens.Take(*proof);
  ASSERT_TRUE(counterproof.ok()) << counterproof.status();
  EXPECT_EQ(counterproof->size(), kCounterproofBytes);
  EXPECT_TRUE(dials.TakeCounterproof(*counterproof).ok());
  for (const std::string& said : {challenge, *proof, *counterproof}) {
    EXPECT_EQ(said.find(secret_), std::string::npos);
  }
}

TEST_F(Proof, AnotherSecretProvesNothingToEitherEnd) {
  const std::string another(runtime::kSecretBytes, 'x');
  const ProofTaker listens = Listens();
  ProofGiver stranger(*secrets_, another, std::string(kProofNumberBytes, 'b'));
  EXPECT_TRUE(absl::IsPermissionDenied(listens.Take(*stranger.Take(listens.Challenge())).status()));

  // One that listens where a member did.
  const ProofTaker impostor(*secrets_, another, std::string(kProofNumberBytes, 'a'));
  ProofGiver dials = Dials();
  const std::string proof = *dials.Take(impostor.Challenge());
  EXPECT_TRUE(absl::IsPermissionDenied(impostor.Take(proof).status()));
  ProofGiver same = Dials();
  const auto made_up =
      impostor.Take(*ProofGiver(*secrets_, another, std::string(kProofNumberBytes, 'b'))
                         .Take(impostor.Challenge()));
  ASSERT_TRUE(made_up.ok());
  ASSERT_TRUE(same.Take(impostor.Challenge()).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(same.TakeCounterproof(*made_up)));
}

TEST_F(Proof, EachChangedBitCounts) {
  const ProofTaker listens = Listens();
  ProofGiver dials = Dials();
  const std::string proof = *dials.Take(listens.Challenge());
  const std::string counterproof = *listens.Take(proof);
  for (size_t bit = 0; bit < 8 * proof.size(); ++bit) {
    std::string changed = proof;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(listens.Take(changed).ok()) << bit;
  }
  for (size_t bit = 0; bit < 8 * counterproof.size(); ++bit) {
    std::string changed = counterproof;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(dials.TakeCounterproof(changed).ok()) << bit;
  }
}

TEST_F(Proof, ATruncatedOneIsNone) {
  const ProofTaker listens = Listens();
  ProofGiver dials = Dials();
  const std::string challenge = listens.Challenge();
  const std::string proof = *dials.Take(challenge);
  const std::string counterproof = *listens.Take(proof);
  for (size_t bytes = 0; bytes < proof.size(); ++bytes) {
    EXPECT_TRUE(absl::IsInvalidArgument(listens.Take(proof.substr(0, bytes)).status())) << bytes;
  }
  for (size_t bytes = 0; bytes < challenge.size(); ++bytes) {
    ProofGiver another = Dials();
    EXPECT_TRUE(absl::IsInvalidArgument(another.Take(challenge.substr(0, bytes)).status()));
    EXPECT_FALSE(another.TakeCounterproof(counterproof).ok());
  }
  EXPECT_TRUE(absl::IsInvalidArgument(dials.TakeCounterproof("")));
  EXPECT_TRUE(absl::IsInvalidArgument(listens.Take(proof + "x").status()));
}

TEST_F(Proof, WhatWasHeardProvesNothingOnAnotherConnection) {
  ProofGiver dials = Dials();
  const ProofTaker first = Listens('a');
  const std::string proof = *dials.Take(first.Challenge());
  const std::string counterproof = *first.Take(proof);
  EXPECT_TRUE(absl::IsPermissionDenied(Listens('c').Take(proof).status()));
  ProofGiver again = Dials('d');
  ASSERT_TRUE(again.Take(first.Challenge()).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(again.TakeCounterproof(counterproof)));
}

// Who asks a member for what it asks him.
TEST_F(Proof, OnesOwnWordsProveNothing) {
  const ProofTaker listens = Listens('a');
  // Its own hash, sent back to it: of the same numbers, as if they were the other's.
  ProofGiver dials = Dials('a');
  const std::string counterproof = *listens.Take(*dials.Take(listens.Challenge()));
  EXPECT_TRUE(absl::IsPermissionDenied(
      Listens('a').Take(std::string(kProofNumberBytes, 'a') + counterproof).status()));
  // A dialer's hash, sent back to it.
  ProofGiver another = Dials('b');
  const std::string proof = *another.Take(listens.Challenge());
  EXPECT_TRUE(absl::IsPermissionDenied(another.TakeCounterproof(proof.substr(kProofNumberBytes))));
}

TEST_F(Proof, WithoutOpenSslThereIsNone) {
  const auto none = tls::MakeSharedSecrets(
      [] { return absl::FailedPreconditionError("there is no OpenSSL here"); });
  const ProofTaker listens(*none, secret_, std::string(kProofNumberBytes, 'a'));
  ProofGiver dials(*none, secret_, std::string(kProofNumberBytes, 'b'));
  EXPECT_TRUE(absl::IsFailedPrecondition(dials.Take(listens.Challenge()).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(listens.Take(std::string(kProofBytes, 'x')).status()));
}

}  // namespace
}  // namespace lockstep::transport

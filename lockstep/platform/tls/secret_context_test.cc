#include "lockstep/platform/tls/secret_context.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "lockstep/platform/runtime/shared_secret.h"
#include "lockstep/platform/tls/certificates.h"

namespace lockstep::tls {
namespace {

using runtime::SecureLayer;
using Side = TlsLayer::Side;

const std::string kSecret(runtime::kSecretBytes, 's');

std::unique_ptr<SecureLayer> End(Side side, const std::string& secret = kSecret) {
  const auto context = SecretContext::Make(LinkedOpenSsl(), side, secret);
  EXPECT_TRUE(context.ok()) << context.status();
  return (*context)->Open();
}

// Carries what one has for the other; false: it had nothing, or the other is broken.
bool Carry(SecureLayer& from, SecureLayer& to, std::string* seen = nullptr) {
  std::string bytes;
  from.TakeOutput(bytes);
  if (seen != nullptr) seen->append(bytes);
  return !bytes.empty() && to.Receive(bytes).ok();
}

void Converse(SecureLayer& one, SecureLayer& other, std::string* seen = nullptr) {
  while (Carry(one, other, seen) || Carry(other, one, seen)) {
  }
}

std::string ReadAll(SecureLayer& end) {
  std::string all;
  char room[1000];
  while (true) {
    const auto bytes = end.Read(absl::MakeSpan(room));
    if (!bytes.ok() || *bytes == 0) return all;
    all.append(room, *bytes);
  }
}

TEST(SecretContext, WhoSharesTheSecretTalksAndNobodyReadsAlong) {
  const auto calls = End(Side::kClient);
  const auto accepts = End(Side::kServer);
  std::string seen;
  Converse(*calls, *accepts, &seen);
  ASSERT_TRUE(calls->established() && accepts->established());
  ASSERT_TRUE(calls->Write("a tensor to hide").ok());
  ASSERT_TRUE(accepts->Write("another tensor to hide").ok());
  Converse(*calls, *accepts, &seen);
  EXPECT_EQ(ReadAll(*accepts), "a tensor to hide");
  EXPECT_EQ(ReadAll(*calls), "another tensor to hide");
  EXPECT_EQ(seen.find("tensor"), std::string::npos);
  EXPECT_EQ(seen.find(kSecret), std::string::npos);
}

TEST(SecretContext, AnotherSecretGetsNobodyThrough) {
  const auto calls = End(Side::kClient, std::string(runtime::kSecretBytes, 'x'));
  const auto accepts = End(Side::kServer);
  Converse(*calls, *accepts);
  EXPECT_FALSE(calls->established());
  EXPECT_FALSE(accepts->established());
}

TEST(SecretContext, AServerWithACertificateInsteadIsNone) {
  const absl::Time now = absl::Now();
  const Identity identity = *MakeSelfSigned(
      {.name = "x", .holds_for = {}, .from = now - absl::Hours(1), .until = now + absl::Hours(1)});
  const auto context = ServerContext::Make(LinkedOpenSsl(), identity, {});
  const auto calls = End(Side::kClient);
  const auto accepts = (*context)->Accept();
  Converse(*calls, *accepts);
  EXPECT_FALSE(calls->established());
}

TEST(SecretContext, ACallerWithoutASecretIsNotServed) {
  const auto calling = ClientContext::Make(
      LinkedOpenSsl(), {.fingerprint = std::string(64, '0'), .authorities = {}, .host = "x"}, {});
  const auto calls = ClientContext::Call(*calling);
  const auto accepts = End(Side::kServer);
  Converse(*calls, *accepts);
  EXPECT_FALSE(accepts->established());
}

TEST(SecretContext, AChangedByteIsNoticed) {
  const auto calls = End(Side::kClient);
  const auto accepts = End(Side::kServer);
  Converse(*calls, *accepts);
  ASSERT_TRUE(calls->Write("a tensor").ok());
  std::string bytes;
  calls->TakeOutput(bytes);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  ASSERT_TRUE(accepts->Receive(bytes).ok());
  char room[100];
  EXPECT_FALSE(accepts->Read(absl::MakeSpan(room)).ok());
}

}  // namespace
}  // namespace lockstep::tls

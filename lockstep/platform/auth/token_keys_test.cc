#include "lockstep/platform/auth/token_keys.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::auth {
namespace {

using wire::native::Role;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

Claims Of(Role role, const std::string& job) {
  return {.role = role, .job = job, .until = kNow + absl::Hours(1), .key = {}};
}

std::string ReasonOf(const absl::StatusOr<Claims>& verdict) {
  return wire::native::ReasonOf(verdict.status());
}

TEST(TokenKeys, KnowTheirOwnTokens) {
  const TokenKeys keys = *TokenKeys::Read(*TokenKeys::NewKey());
  for (const Role role :
       {Role::kObserve, Role::kTask, Role::kLaunch, Role::kWork, Role::kOperate}) {
    const auto claims = keys.Verify(*keys.Sign(Of(role, "digits")), kNow);
    ASSERT_TRUE(claims.ok()) << claims.status();
    EXPECT_EQ(claims->role, role);
    EXPECT_EQ(claims->job, "digits");
  }
}

TEST(TokenKeys, RefuseThoseOfOthersAndThoseThatWereChanged) {
  const TokenKeys keys = *TokenKeys::Read(*TokenKeys::NewKey());
  const TokenKeys others = *TokenKeys::Read(*TokenKeys::NewKey());
  const std::string token = *keys.Sign(Of(Role::kTask, "digits"));
  EXPECT_EQ(ReasonOf(others.Verify(token, kNow)), "token_unknown_key");

  auto parsed = *ParseToken(token);
  parsed.claims.role = Role::kOperate;
  const std::string raised = TokenText(*TextToSign(parsed.claims), parsed.signature);
  EXPECT_EQ(ReasonOf(keys.Verify(raised, kNow)), "token_invalid");
  for (size_t cut = 0; cut < token.size(); cut += 7) {
    EXPECT_FALSE(keys.Verify(token.substr(0, cut), kNow).ok());
  }
  for (size_t at = 0; at < parsed.signature.size(); ++at) {
    std::string signature = parsed.signature;
    signature[at] = static_cast<char>(signature[at] ^ 1);
    EXPECT_EQ(ReasonOf(keys.Verify(TokenText(parsed.signed_text, signature), kNow)),
              "token_invalid");
  }
  EXPECT_EQ(ReasonOf(keys.Verify(TokenText(parsed.signed_text, ""), kNow)), "token_invalid");
  EXPECT_EQ(ReasonOf(keys.Verify("", kNow)), "token_invalid");
}

TEST(TokenKeys, RefuseOneThatIsOver) {
  const TokenKeys keys = *TokenKeys::Read(*TokenKeys::NewKey());
  const std::string token = *keys.Sign(Of(Role::kTask, "digits"));
  EXPECT_TRUE(keys.Verify(token, kNow + absl::Hours(1)).ok());
  EXPECT_TRUE(keys.Verify(token, kNow + absl::Hours(1) + TokenKeys::kClockTolerance).ok());
  const auto over =
      keys.Verify(token, kNow + absl::Hours(1) + TokenKeys::kClockTolerance + absl::Seconds(1));
  EXPECT_EQ(ReasonOf(over), "token_expired");
  EXPECT_THAT(std::string(over.status().message()), testing::HasSubstr("2023-11-14 23:13:20 UTC"));
}

TEST(TokenKeys, AreReplacedWhileTokensOfTheFormerAreAbout) {
  const std::string former = *TokenKeys::NewKey();
  const std::string now = *TokenKeys::NewKey();
  const std::string token = *TokenKeys::Read(former)->Sign(Of(Role::kTask, "digits"));
  const TokenKeys both = *TokenKeys::Read(now + former);
  EXPECT_TRUE(both.Verify(token, kNow).ok());
  EXPECT_TRUE(TokenKeys::Read(now)->Verify(*both.Sign(Of(Role::kTask, "digits")), kNow).ok());
  EXPECT_EQ(ReasonOf(TokenKeys::Read(now)->Verify(token, kNow)), "token_unknown_key");
}

TEST(TokenKeys, SayWhatIsWrongWithTheirFile) {
  const auto error = [](const std::string& pem) {
    return std::string(TokenKeys::Read(pem).status().message());
  };
  EXPECT_THAT(error(""), testing::HasSubstr("no private key"));
  EXPECT_THAT(error("secret nonsense"), testing::Not(testing::HasSubstr("secret")));
  const std::string key = *TokenKeys::NewKey();
  EXPECT_THAT(error(key + key + key), testing::HasSubstr("more than 2 keys"));
}

TEST(DigestOf, IsSha256) {
  EXPECT_EQ(absl::BytesToHexString(DigestOf("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace lockstep::auth

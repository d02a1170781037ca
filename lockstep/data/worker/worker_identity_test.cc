#include "lockstep/data/worker/worker_identity.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/runtime/shared_secret.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::data {
namespace {

wire::native::Card CardOf(const WorkerIdentity& identity) {
  wire::native::Card card;
  identity.WriteTo(card);
  return card;
}

std::string TokenOf(const WorkerIdentity& identity) {
  return absl::BytesToHexString(CardOf(identity).secret.data);
}

TEST(WorkerIdentity, ServesWhoHasTheCard) {
  const auto identity = WorkerIdentity::Make();
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_EQ(CardOf(**identity).fingerprint.size(), 64);
  EXPECT_EQ(CardOf(**identity).secret.data.size(), runtime::kSecretBytes);
  const auto rights = (*identity)->Admit({.token = TokenOf(**identity), .secure = true});
  ASSERT_TRUE(rights.ok()) << rights.status();
  EXPECT_EQ(rights->role, wire::native::Role::kTask);
}

TEST(WorkerIdentity, ServesNobodyElse) {
  const auto identity = WorkerIdentity::Make();
  const auto other = WorkerIdentity::Make();
  ASSERT_TRUE(identity.ok() && other.ok());
  EXPECT_NE(CardOf(**identity).fingerprint, CardOf(**other).fingerprint);
  const std::string token = TokenOf(**identity);
  std::string changed = token;
  changed.back() = changed.back() == '0' ? '1' : '0';
  for (const std::string& wrong :
       {std::string(), token.substr(0, token.size() - 1), token + "0", changed, TokenOf(**other),
        absl::AsciiStrToUpper(token), CardOf(**identity).secret.data}) {
    if (wrong == token) continue;  // of digits only
    const auto refused = (*identity)->Admit({.token = wrong, .secure = true});
    EXPECT_TRUE(absl::IsUnauthenticated(refused.status())) << refused.status();
    EXPECT_EQ(wire::native::ReasonOf(refused.status()), "worker_secret");
    EXPECT_THAT(std::string(refused.status().message()),
                ::testing::Not(::testing::HasSubstr(token)));
  }
  // Without TLS, others may have read it.
  EXPECT_FALSE((*identity)->Admit({.token = token, .secure = false}).ok());
  // However local the caller is.
  EXPECT_FALSE((*identity)->Admit({.token = {}, .secure = true, .local = true}).ok());
}

}  // namespace
}  // namespace lockstep::data

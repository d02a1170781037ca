#include "lockstep/platform/auth/token.h"

#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::auth {
namespace {

using wire::native::Role;

const Claims kClaims = {.role = Role::kTask,
                        .job = "digits",
                        .until = absl::FromUnixSeconds(1'800'000'000),
                        .key = "01234567"};

std::string ReasonOf(std::string_view text) {
  return wire::native::ReasonOf(ParseToken(text).status());
}

TEST(Role, HasANameThatIsReadBack) {
  for (const char* name : {"observe", "task", "launch", "worker", "operator"}) {
    EXPECT_EQ(RoleName(*ParseRole(name)), name);
  }
  EXPECT_THAT(std::string(ParseRole("root").status().message()),
              testing::HasSubstr("observe, task, launch, worker, operator"));
}

TEST(Token, IsReadAsItWasWritten) {
  for (const std::string job : {"digits", "", "a.b-c_d",
                                "Gr\xc3\xb6\xc3\x9f"
                                "e"}) {
    Claims claims = kClaims;
    claims.job = job;
    const std::string text = TokenText(*TextToSign(claims), "signature");
    const auto token = ParseToken(text);
    ASSERT_TRUE(token.ok()) << token.status();
    EXPECT_EQ(token->claims, claims);
    EXPECT_EQ(token->signature, "signature");
    EXPECT_EQ(token->signed_text, *TextToSign(claims));
  }
}

TEST(Token, CannotBeMadeToSayMoreByItsNames) {
  Claims claims = kClaims;
  claims.job = "digits\noperator";
  EXPECT_TRUE(absl::IsInvalidArgument(TextToSign(claims).status()));
  claims = kClaims;
  claims.key = "a\nb";
  EXPECT_TRUE(absl::IsInvalidArgument(TextToSign(claims).status()));
}

TEST(Token, WhatIsNoneIsRefusedWithoutAWordOfIt) {
  const std::string good = TokenText(*TextToSign(kClaims), "signature");
  const auto with_claims = [](const std::string& claims) { return TokenText(claims, "s"); };
  for (const std::string& text :
       {std::string(), std::string("secret"), good.substr(1), good + ".x", good + "=",
        "lst2" + good.substr(4), std::string(kTokenBytesMax + 1, 'x'), std::string("lst1.."),
        with_claims("task\nj\n1\nk\nmore"), with_claims("task\nj\n1"), with_claims("root\nj\n1\nk"),
        with_claims("task\nj\n01\nk"), with_claims("task\nj\n-1\nk"), with_claims("task\nj\n\nk"),
        with_claims("task\nj\n99999999999999\nk"), with_claims("task\nj\x01\n1\nk")}) {
    EXPECT_EQ(ReasonOf(text), "token_invalid") << text;
    EXPECT_THAT(std::string(ParseToken(text).status().message()),
                testing::Not(testing::HasSubstr("secret")));
  }
}

TEST(Token, SurvivesEveryChangeOfAByte) {
  const std::string good = TokenText(*TextToSign(kClaims), std::string(64, '\x7f'));
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = good;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      const auto token = ParseToken(changed);
      // Whatever is still a token says other claims, or is signed otherwise.
      if (token.ok()) {
        EXPECT_FALSE(token->claims == kClaims && token->signature == std::string(64, '\x7f'));
      }
    }
  }
  std::mt19937 random(3);
  for (int round = 0; round < 10'000; ++round) {
    std::string text = "lst1." + std::string(random() % 300, 'A');
    for (char& sign : text) {
      if (random() % 3 == 0) sign = static_cast<char>(random());
    }
    EXPECT_FALSE(ParseToken(text).ok());
  }
}

}  // namespace
}  // namespace lockstep::auth

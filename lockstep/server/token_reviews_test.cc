#include "lockstep/server/token_reviews.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using wire::native::ReasonOf;
using wire::native::Role;

constexpr Time kStart = Time::FromNanoseconds(1'000'000'000'000);
constexpr Time kNever = Time::Infinite();

Time After(double seconds) { return kStart + absl::Seconds(seconds); }

TokenReviews::Verdict Yes() { return link::Rights{.role = Role::kTask, .job = "digits"}; }
TokenReviews::Verdict No() {
  return wire::native::WithReason(absl::UnauthenticatedError("no"), "token_invalid");
}
TokenReviews::Verdict Failed() {
  return wire::native::WithReason(absl::UnavailableError("no"), "token_review_failed");
}

TokenReviews::Caller Of(uint64_t id, const std::string& host = "h") {
  return {.id = id, .host = host};
}

class TokenReviewsTest : public testing::Test {
 protected:
  // Asks about a token, and says how its review ends.
  void Review(double at, const std::string& digest, const TokenReviews::Verdict& verdict,
              Time ends = kNever) {
    ASSERT_FALSE(reviews_.Ask(After(at), digest, "token", ends, Of(99)).has_value());
    ASSERT_EQ(reviews_.Next(After(at)).digest, digest);
    ASSERT_THAT(reviews_.End(After(at), digest, verdict), ElementsAre(99));
  }
  bool Knows(double at, const std::string& digest) {
    return reviews_.Recall(After(at), digest).has_value();
  }

  TokenReviews reviews_{{.waiting_max = 3, .verdicts_max = 2}};
};

TEST_F(TokenReviewsTest, CallersOfOneTokenShareAReview) {
  EXPECT_FALSE(reviews_.Ask(kStart, "a", "text of a", kNever, Of(1)));
  EXPECT_FALSE(reviews_.Ask(kStart, "a", "text of a", kNever, Of(2)));
  const auto step = reviews_.Next(kStart);
  EXPECT_EQ(step.digest, "a");
  EXPECT_EQ(step.token, "text of a");
  EXPECT_FALSE(reviews_.Ask(kStart, "a", "text of a", kNever, Of(3))) << "also while it runs";
  EXPECT_EQ(reviews_.Next(kStart).digest, std::nullopt);
  EXPECT_THAT(reviews_.End(kStart, "a", Yes()), ElementsAre(1, 2, 3));
  EXPECT_EQ(reviews_.waiting(), 0u);
  EXPECT_EQ(reviews_.Ask(kStart, "a", "text of a", kNever, Of(4))->value().job, "digits");
}

TEST_F(TokenReviewsTest, AVerdictIsRememberedForAMinuteAndARefusalForFiveSeconds) {
  Review(0, "a", Yes());
  Review(0, "b", No());
  EXPECT_TRUE(Knows(59.9, "a"));
  EXPECT_FALSE(Knows(60, "a"));
  EXPECT_EQ(ReasonOf(reviews_.Recall(After(4.9), "b")->status()), "token_invalid");
  EXPECT_FALSE(Knows(5, "b"));
}

TEST_F(TokenReviewsTest, NoVerdictOutlivesItsToken) {
  Review(0, "a", Yes(), After(10));
  EXPECT_TRUE(Knows(9.9, "a"));
  EXPECT_FALSE(Knows(10, "a"));
  Review(20, "b", Yes(), After(20));
  EXPECT_FALSE(Knows(20, "b"));
}

TEST_F(TokenReviewsTest, WhatIsNoVerdictIsNotRemembered) {
  Review(0, "a", Failed());
  EXPECT_FALSE(Knows(0, "a"));
  Review(0, "a", Yes());
  EXPECT_TRUE(Knows(0, "a"));
}

TEST_F(TokenReviewsTest, MakesRoomForAVerdictByTheOneThatEndsFirst) {
  Review(0, "a", Yes());
  Review(1, "b", No());
  Review(2, "c", Yes());
  EXPECT_EQ(reviews_.remembered(), 2u);
  EXPECT_TRUE(Knows(2, "a"));
  EXPECT_FALSE(Knows(2, "b"));
  Review(100, "d", Yes());
  EXPECT_EQ(reviews_.remembered(), 1u) << "the others have ended";
}

TEST_F(TokenReviewsTest, RefusesCallersAboveItsLimit) {
  for (const uint64_t caller : {1, 2, 3}) {
    EXPECT_FALSE(reviews_.Ask(kStart, absl::StrCat("digest ", caller), "t", kNever, Of(caller)));
  }
  const auto refused = reviews_.Ask(kStart, "digest 1", "t", kNever, Of(4));
  ASSERT_TRUE(refused);
  EXPECT_TRUE(absl::IsUnavailable(refused->status()));
  EXPECT_EQ(ReasonOf(refused->status()), "token_reviews_full");
  reviews_.End(kStart, *reviews_.Next(kStart).digest, Failed());
  EXPECT_FALSE(reviews_.Ask(kStart, "digest 1", "t", kNever, Of(4)));
}

TEST_F(TokenReviewsTest, CallersWhoseTurnComesTooLateAreNotAskedAbout) {
  EXPECT_FALSE(reviews_.Ask(kStart, "a", "t", kNever, Of(1)));
  EXPECT_FALSE(reviews_.Ask(After(1), "a", "t", kNever, Of(2)));
  EXPECT_FALSE(reviews_.Ask(After(1), "b", "t", kNever, Of(3)));
  const auto step = reviews_.Next(After(2));
  EXPECT_THAT(step.late, ElementsAre(1, 2));
  EXPECT_EQ(step.digest, "b");
  EXPECT_THAT(reviews_.Next(After(9)).late, IsEmpty());
  EXPECT_EQ(reviews_.waiting(), 1u);
}

TEST_F(TokenReviewsTest, HostsTakeTurns) {
  TokenReviews reviews({});
  for (const uint64_t caller : {1, 2, 3}) {
    EXPECT_FALSE(reviews.Ask(kStart, absl::StrCat("f", caller), "t", kNever, Of(caller, "flood")));
  }
  EXPECT_FALSE(reviews.Ask(kStart, "a", "t", kNever, Of(4, "a")));
  EXPECT_FALSE(reviews.Ask(kStart, "z", "t", kNever, Of(5, "z")));
  std::vector<std::string> order;
  while (const auto digest = reviews.Next(kStart).digest) order.push_back(*digest);
  EXPECT_THAT(order, ElementsAre("a", "f1", "z", "f2", "f3"));
}

TEST_F(TokenReviewsTest, AHostHasPlacesOfItsOwnOnly) {
  TokenReviews reviews({.waiting_max = 5, .waiting_per_host_max = 2});
  EXPECT_FALSE(reviews.Ask(kStart, "a", "t", kNever, Of(1)));
  EXPECT_FALSE(reviews.Ask(kStart, "a", "t", kNever, Of(2)));
  EXPECT_EQ(ReasonOf(reviews.Ask(kStart, "a", "t", kNever, Of(3))->status()), "token_reviews_full");
  EXPECT_FALSE(reviews.Ask(kStart, "a", "t", kNever, Of(3, "another")));
  reviews.Leave(1);
  EXPECT_FALSE(reviews.Ask(kStart, "a", "t", kNever, Of(4)));
}

TEST_F(TokenReviewsTest, WhoLeavesIsNotAskedAboutAndGivesItsPlaceBack) {
  EXPECT_FALSE(reviews_.Ask(kStart, "a", "t", kNever, Of(1)));
  EXPECT_FALSE(reviews_.Ask(kStart, "b", "t", kNever, Of(2)));
  EXPECT_FALSE(reviews_.Ask(kStart, "b", "t", kNever, Of(3)));
  reviews_.Leave(1);
  reviews_.Leave(2);
  reviews_.Leave(7);
  EXPECT_EQ(reviews_.waiting(), 1u);
  EXPECT_EQ(reviews_.Next(kStart).digest, "b");
  EXPECT_EQ(reviews_.Next(kStart).digest, std::nullopt);
  reviews_.Leave(3);
  EXPECT_THAT(reviews_.End(kStart, "b", Yes()), IsEmpty()) << "its verdict is known all the same";
  EXPECT_TRUE(Knows(0, "b"));
  // As does one that comes and goes without end.
  for (uint64_t caller = 10; caller < 1000; ++caller) {
    ASSERT_FALSE(reviews_.Ask(kStart, absl::StrCat(caller), "t", kNever, Of(caller)));
    reviews_.Leave(caller);
  }
  EXPECT_EQ(reviews_.Next(kStart).digest, std::nullopt);
}

}  // namespace
}  // namespace lockstep::server

#include "lockstep/server/kubernetes_accounts.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/error_reply.h"
#include "nlohmann/json.hpp"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using wire::native::ReasonOf;
using wire::native::Role;

constexpr absl::Time kUntil = absl::FromUnixSeconds(2'000'000'000);

std::string Complaint(const std::vector<std::string>& texts) {
  return std::string(ParseKubernetesAccounts(texts).status().message());
}

TEST(KubernetesAccounts, HaveARoleForOneJobOrAll) {
  const auto accounts = ParseKubernetesAccounts({"ml/train=launch:digits", "ops/admin=operator"});
  ASSERT_TRUE(accounts.ok()) << accounts.status();
  EXPECT_EQ(accounts->at(0).user, "system:serviceaccount:ml:train");
  EXPECT_EQ(accounts->at(0).rights.role, Role::kLaunch);
  EXPECT_EQ(accounts->at(0).rights.job, "digits");
  EXPECT_EQ(accounts->at(1).rights.role, Role::kOperate);
  EXPECT_EQ(accounts->at(1).rights.job, "");
  EXPECT_EQ(ParseKubernetesAccount("ml/a=observe:digits")->rights.job, "digits");
}

TEST(KubernetesAccounts, WrongOnesSayWhatIsWrong) {
  EXPECT_THAT(Complaint({"ml/train"}), HasSubstr("the role is missing"));
  EXPECT_THAT(Complaint({"train=observe"}), HasSubstr("must be NAMESPACE/NAME"));
  EXPECT_THAT(Complaint({"a/b/c=observe"}), HasSubstr("must be NAMESPACE/NAME"));
  EXPECT_THAT(Complaint({"/b=observe"}), HasSubstr("the namespace has an invalid name"));
  EXPECT_THAT(Complaint({"ml/B:c=observe"}), HasSubstr("the ServiceAccount has an invalid name"));
  EXPECT_THAT(Complaint({"ml/a=king"}), HasSubstr("there is no role 'king'"));
  EXPECT_THAT(Complaint({"ml/a=task"}), HasSubstr("the role task requires a job"));
  EXPECT_THAT(Complaint({"ml/a=launch"}), HasSubstr("the role launch requires a job"));
  EXPECT_THAT(Complaint({"ml/a=observe:"}), HasSubstr("the job after ':' is missing"));
  EXPECT_THAT(Complaint({"ml/a=launch:*"}), HasSubstr("write NAMESPACE/NAME=ROLE"));
  EXPECT_THAT(Complaint({"ml/a=observe", "ml/a=operator"}), HasSubstr("named twice"));
  EXPECT_THAT(Complaint(std::vector<std::string>(kKubernetesAccountsMax + 1, "ml/a=observe")),
              HasSubstr("at most 256 are allowed (kubernetes_accounts_max)"));
}

std::string Jwt(const std::string& claims) {
  return absl::StrCat("eyJhbGciOiJSUzI1NiJ9.", absl::WebSafeBase64Escape(claims), ".c2ln");
}

TEST(KubernetesAccounts, KnowTheFormOfTheirTokens) {
  EXPECT_TRUE(IsServiceAccountToken(Jwt("{}")));
  for (const std::string& other :
       {std::string(), std::string("lst1.b2JzZXJ2ZQ.c2ln"), std::string("eyJh.b"), Jwt("{}") + ".x",
        Jwt("{}") + "\n", Jwt("{}") + "\"", Jwt(std::string(4000, ' '))}) {
    EXPECT_FALSE(IsServiceAccountToken(other)) << other;
  }
}

TEST(KubernetesAccounts, ReadWhenATokenExpiresIfItSays) {
  EXPECT_EQ(ExpiryOf(Jwt(R"({"exp": 2000000000})")), kUntil);
  EXPECT_EQ(ExpiryOf(Jwt(R"({"exp": 2000000000.7})")), kUntil);
  for (const char* claims : {"{}", "", "[]", "nonsense", R"({"exp": "2000000000"})",
                             R"({"exp": -1})", R"({"exp": 1e300})", R"({"exp": null})"}) {
    EXPECT_EQ(ExpiryOf(Jwt(claims)), std::nullopt) << claims;
  }
  EXPECT_EQ(ExpiryOf(Jwt(std::string(2000, '['))), std::nullopt);
}

KubernetesOptions Options() {
  return {.accounts = {*ParseKubernetesAccount("ml/train=launch:digits")}};
}

TEST(KubernetesAccounts, AskForTheirAudience) {
  const auto request = ReviewRequest(Options(), "the.to.ken", absl::Seconds(2));
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/apis/authentication.k8s.io/v1/tokenreviews");
  EXPECT_EQ(request.timeout, absl::Seconds(2));
  const auto body = nlohmann::json::parse(request.body);
  EXPECT_EQ(body["apiVersion"], "authentication.k8s.io/v1");
  EXPECT_EQ(body["kind"], "TokenReview");
  EXPECT_EQ(body["spec"]["token"], "the.to.ken");
  EXPECT_EQ(body["spec"]["audiences"], nlohmann::json::array({"lockstep"}));
}

Review Read(const std::string& body, int status = 201) {
  preempt::HttpMessage answer;
  answer.status = status;
  answer.body = body;
  return ReadReview(Options(), answer, kUntil);
}
std::string ReasonFor(const std::string& status) {
  return ReasonOf(
      Read(absl::StrCat(R"({"kind": "TokenReview", "status": )", status, "}")).verdict.status());
}

TEST(KubernetesAccounts, AcceptOnlyWhomTheApiServerNames) {
  const Review review = Read(R"({"kind": "TokenReview", "status": {"authenticated": true,
      "audiences": ["other", "lockstep"],
      "user": {"username": "system:serviceaccount:ml:train"}}})");
  ASSERT_TRUE(review.verdict.ok()) << review.verdict.status();
  EXPECT_EQ(review.verdict->role, Role::kLaunch);
  EXPECT_EQ(review.verdict->job, "digits");
  EXPECT_EQ(review.verdict->until, kUntil);
  EXPECT_EQ(review.trouble, "");
}

TEST(KubernetesAccounts, TellTheOperatorWhyATokenIsRejected) {
  const Review review = Read(
      R"({"kind": "TokenReview", "status": {"error": "Token has\nbeen invalidated", "user": {}}})");
  EXPECT_EQ(ReasonOf(review.verdict.status()), "token_invalid");
  EXPECT_THAT(review.rejection, HasSubstr("been invalidated"));
  EXPECT_THAT(review.rejection, Not(HasSubstr("\n")));
  EXPECT_EQ(review.trouble, "");
}

TEST(KubernetesAccounts, RefuseAllOthers) {
  EXPECT_EQ(ReasonFor(R"({"authenticated": false, "error": "x"})"), "token_invalid");
  EXPECT_EQ(ReasonFor("{}"), "token_invalid");
  EXPECT_EQ(ReasonFor("[]"), "token_invalid");
  EXPECT_EQ(ReasonFor(R"({"authenticated": "true"})"), "token_invalid");
  EXPECT_EQ(ReasonFor(R"({"authenticated": 1})"), "token_invalid");
  const std::string yes = R"({"authenticated": true, )";
  const std::string train = R"("user": {"username": "system:serviceaccount:ml:train"})";
  EXPECT_EQ(ReasonFor(yes + train + "}"), "token_invalid") << "an API server without audiences";
  EXPECT_EQ(ReasonFor(yes + R"("audiences": ["lockstep2"], )" + train + "}"), "token_invalid");
  EXPECT_EQ(ReasonFor(yes + R"("audiences": "lockstep", )" + train + "}"), "token_invalid");
  const std::string ours = yes + R"("audiences": ["lockstep"])";
  for (const char* user :
       {"", R"(, "user": 7)", R"(, "user": {"username": ["system:serviceaccount:ml:train"]})",
        R"(, "user": {"username": "system:serviceaccount:ml:train2"})",
        R"(, "user": {"username": "system:serviceaccount:ml2:train"})",
        R"(, "user": {"username": "train", "groups": ["system:serviceaccount:ml:train"]})"}) {
    EXPECT_EQ(ReasonFor(absl::StrCat(ours, user, "}")), "token_account_unknown") << user;
  }
  const auto named =
      Read(absl::StrCat(R"({"kind": "TokenReview", "status": )", ours,
                        R"(, "user": {"username": "system:serviceaccount:ml:other"}}})"));
  EXPECT_THAT(std::string(named.verdict.status().message()),
              HasSubstr("no tokens of the ServiceAccount ml/other"));
}

TEST(KubernetesAccounts, AnAnswerThatIsNoReviewIsNoVerdict) {
  for (const auto& [body, status] : {std::pair<std::string, int>{"nonsense", 201},
                                     {"", 200},
                                     {R"({"kind": "Status"})", 201},
                                     {R"({"kind": "TokenReview"})", 307},
                                     {"{}", 403},
                                     {"{}", 401},
                                     {"{}", 500}}) {
    const Review review = Read(body, status);
    EXPECT_EQ(ReasonOf(review.verdict.status()), "token_review_failed") << body;
    EXPECT_TRUE(absl::IsUnavailable(review.verdict.status()));
    EXPECT_NE(review.trouble, "");
  }
  EXPECT_THAT(Read("", 403).trouble, HasSubstr("system:auth-delegator"));
  EXPECT_THAT(Read("", 401).trouble, HasSubstr("--kubernetes-token"));
  const Review unreachable = ReadReview(Options(), absl::DeadlineExceededError("late"), kUntil);
  EXPECT_EQ(ReasonOf(unreachable.verdict.status()), "token_review_failed");
  EXPECT_EQ(unreachable.trouble, "late");
}

}  // namespace
}  // namespace lockstep::server

#include "fuzz/kubernetes_fuzzer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/auth/token.h"
#include "lockstep/server/kubernetes_accounts.h"
#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/error_reply.h"
#include "nlohmann/json.hpp"

namespace lockstep::fuzz {
namespace {

using server::KubernetesAccount;
using server::KubernetesOptions;
using server::Review;
using wire::native::ReasonOf;
using wire::native::Role;
using Json = nlohmann::json;

constexpr char kPrefix[] = "system:serviceaccount:";
constexpr int64_t kExpiryMax = 253'402'300'799;  // the last second of the year 9999
constexpr absl::Time kUntil = absl::FromUnixSeconds(2'000'000'000);
constexpr size_t kErrorBytesMax = 1024;

const KubernetesOptions& Options() {
  static const KubernetesOptions options = {
      .accounts = *server::ParseKubernetesAccounts(
          {"ml/train=launch:digits", "ml/train2=observe", "ops/admin=operator"})};
  return options;
}

Json Parse(std::string_view text) { return Json::parse(text.begin(), text.end(), nullptr, false); }
// Bytes that are no UTF-8 become other text.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Of a token.

void ReadToken(std::string_view bytes) {
  const auto expiry = server::ExpiryOf(bytes);
  if (expiry.has_value()) {
    LOCKSTEP_CHECK(*expiry >= absl::UnixEpoch() && *expiry <= absl::FromUnixSeconds(kExpiryMax));
  }
  if (!server::IsServiceAccountToken(bytes)) {
    LOCKSTEP_CHECK(!expiry.has_value());
    return;
  }
  LOCKSTEP_CHECK(bytes.size() <= wire::native::kTokenBytes.max);
  LOCKSTEP_CHECK(std::count(bytes.begin(), bytes.end(), '.') == 2);
  LOCKSTEP_CHECK(std::all_of(bytes.begin(), bytes.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.';
  }));
  LOCKSTEP_CHECK(!auth::ParseToken(bytes).ok());
  // It is asked about as it is, and stands nowhere else.
  const auto request = server::ReviewRequest(Options(), bytes, absl::Seconds(2));
  const Json asked = Parse(request.body);
  LOCKSTEP_CHECK(asked.at("spec").at("token") == std::string(bytes));
  LOCKSTEP_CHECK(asked.at("spec").at("audiences") == Json::array({"lockstep"}));
  LOCKSTEP_CHECK(request.target.find(bytes) == std::string::npos);
}

std::string TokenThatSays(std::string_view claims) {
  return absl::StrCat("eyJhbGciOiJSUzI1NiJ9.",
                      absl::WebSafeBase64Escape({claims.data(), claims.size()}), ".c2ln");
}

void ReadClaims(std::string_view claims) {
  const std::string token = TokenThatSays(claims);
  ReadToken(token);
  LOCKSTEP_CHECK(server::IsServiceAccountToken(token) ==
                 (token.size() <= wire::native::kTokenBytes.max));
  const auto expiry = server::ExpiryOf(token);
  if (!expiry.has_value()) return;
  const Json said = Parse(claims);
  LOCKSTEP_CHECK(said.is_object() && said.contains("exp") && said["exp"].is_number());
  LOCKSTEP_CHECK(std::floor(said["exp"].get<double>()) ==
                 static_cast<double>(absl::ToUnixSeconds(*expiry)));
}

template <class Number>
std::string ClaimsUntil(Number exp) {
  Json claims;
  claims["exp"] = exp;
  return Dump(claims);
}

// Every second within the bound, and no others.
void ReadExpiry(std::string_view bytes) {
  int64_t number = 0;
  if (bytes.size() < sizeof(number)) return;
  std::memcpy(&number, bytes.data(), sizeof(number));
  double fraction = 0;
  std::memcpy(&fraction, bytes.data(), sizeof(fraction));
  // The second is within the bound in a quarter of all inputs.
  for (const int64_t seconds : {number, number % (2 * kExpiryMax)}) {
    const auto expiry = server::ExpiryOf(TokenThatSays(ClaimsUntil(seconds)));
    LOCKSTEP_CHECK(expiry.has_value() == (seconds >= 0 && seconds <= kExpiryMax));
    if (expiry.has_value()) LOCKSTEP_CHECK(*expiry == absl::FromUnixSeconds(seconds));
  }
  ReadClaims(ClaimsUntil(fraction));
}

// Of what an API server answers.

bool SameRights(const link::Rights& one, const link::Rights& other) {
  return one.role == other.role && one.job == other.job && one.member == other.member;
}

// Whether the text may stand in a line of a log.
bool IsPlain(std::string_view text) {
  return text.size() <= kErrorBytesMax &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isprint(c); });
}

// Whose the token is, if the answer says that it is good for this server; else empty.
std::string UserOf(const std::string& body) {
  const Json review = Parse(body);
  if (!review.is_object() || !review.contains("kind") || review["kind"] != "TokenReview") return {};
  const Json status = review.value("status", Json());
  if (!status.is_object() || status.value("authenticated", Json()) != Json(true)) return {};
  const Json audiences = status.value("audiences", Json());
  if (!audiences.is_array() ||
      std::find(audiences.begin(), audiences.end(), Json("lockstep")) == audiences.end()) {
    return {};
  }
  const Json user = status.value("user", Json());
  const Json name = user.is_object() ? user.value("username", Json()) : Json();
  return name.is_string() ? name.get<std::string>() : std::string();
}

Review Answer(const KubernetesOptions& options, int status, const std::string& body) {
  preempt::HttpMessage answer;
  answer.status = status;
  answer.body = body;
  return server::ReadReview(options, answer, kUntil);
}

void CheckRefusal(const Review& review) {
  const std::string reason = ReasonOf(review.verdict.status());
  const bool unknown = absl::IsUnavailable(review.verdict.status());
  LOCKSTEP_CHECK(unknown == (reason == "token_review_failed") &&
                 unknown == !review.trouble.empty());
  if (!unknown) {
    LOCKSTEP_CHECK(absl::IsUnauthenticated(review.verdict.status()));
    LOCKSTEP_CHECK(reason == "token_invalid" || reason == "token_account_unknown");
  }
  const absl::string_view message = review.verdict.status().message();
  LOCKSTEP_CHECK(IsPlain({message.data(), message.size()}) && IsPlain(review.trouble));
  LOCKSTEP_CHECK(review.rejection.size() <= kErrorBytesMax &&
                 (review.rejection.empty() || reason == "token_invalid"));
}

// Who is let in has what one account was declared with, and is let in if and only if the answer
// names that account.
void CheckAnswer(const KubernetesOptions& options, int status, const std::string& body) {
  const Review review = Answer(options, status, body);
  const std::string user = status == 200 || status == 201 ? UserOf(body) : std::string();
  const auto account = std::find_if(options.accounts.begin(), options.accounts.end(),
                                    [&](const KubernetesAccount& one) { return one.user == user; });
  LOCKSTEP_CHECK(review.verdict.ok() == (account != options.accounts.end()));
  if (!review.verdict.ok()) return CheckRefusal(review);
  LOCKSTEP_CHECK(SameRights(*review.verdict, account->rights));
  LOCKSTEP_CHECK(review.verdict->until == kUntil && review.trouble.empty());
}

Json ReviewOf(const std::string& user) {
  return {{"kind", "TokenReview"},
          {"status",
           {{"authenticated", true},
            {"audiences", Json::array({"lockstep"})},
            {"user", {{"username", user}}}}}};
}

void ReadAnswer(std::string_view bytes) {
  const std::string body(bytes);
  for (const int status : {200, 201, 0, 204, 302, 401, 403, 500}) {
    CheckAnswer(Options(), status, body);
  }
  // As one part of an answer that is right but for it.
  const Json right = ReviewOf(Options().accounts[0].user);
  CheckAnswer(Options(), 201, Dump(ReviewOf(body)));
  Json other = right;
  other["status"]["audiences"] = Json::array({body});
  CheckAnswer(Options(), 201, Dump(other));
  const Json value = Parse(bytes);
  if (value.is_discarded()) return;
  for (const char* path : {"/kind", "/status", "/status/authenticated", "/status/audiences",
                           "/status/user", "/status/user/username"}) {
    other = right;
    other[Json::json_pointer(path)] = value;
    CheckAnswer(Options(), 201, Dump(other));
  }
}

// Of what an operator declares.

void ReadAccount(const std::string& text) {
  const auto account = server::ParseKubernetesAccount(text);
  if (!account.ok()) {
    LOCKSTEP_CHECK(absl::IsInvalidArgument(account.status()));
    return;
  }
  // There is one way to write each.
  const link::Rights& rights = account->rights;
  const std::vector<std::string> user = absl::StrSplit(account->user, ':');
  LOCKSTEP_CHECK(user.size() == 4 && absl::StrCat(user[0], ":", user[1], ":") == kPrefix);
  LOCKSTEP_CHECK(absl::StrCat(user[2], "/", user[3], "=", auth::RoleName(rights.role),
                              rights.job.empty() ? "" : ":", rights.job) == text);
  LOCKSTEP_CHECK(!rights.job.empty() ||
                 (rights.role != Role::kTask && rights.role != Role::kLaunch));
  LOCKSTEP_CHECK(rights.until == absl::InfiniteFuture() && !rights.member.has_value());
  // It is let in, whoever else is.
  KubernetesOptions options = Options();
  const auto same = [&](const KubernetesAccount& one) { return one.user == account->user; };
  std::erase_if(options.accounts, same);
  options.accounts.push_back(*account);
  const std::string answer = Dump(ReviewOf(account->user));
  LOCKSTEP_CHECK(Answer(options, 201, answer).verdict.ok());
  CheckAnswer(options, 201, answer);
}

void ReadAccounts(std::string_view bytes) {
  const std::vector<std::string> texts =
      absl::StrSplit(absl::string_view(bytes.data(), bytes.size()), '\n');
  for (const std::string& text : texts) ReadAccount(text);
  const auto accounts = server::ParseKubernetesAccounts(texts);
  if (!accounts.ok()) {
    LOCKSTEP_CHECK(absl::IsInvalidArgument(accounts.status()));
    return;
  }
  std::set<std::string> users;
  for (const KubernetesAccount& account : *accounts) users.insert(account.user);
  LOCKSTEP_CHECK(users.size() == texts.size() && texts.size() <= server::kKubernetesAccountsMax);
}

}  // namespace

void ReadKubernetes(std::string_view bytes) {
  ReadToken(bytes);
  ReadClaims(bytes);
  ReadExpiry(bytes);
  ReadAnswer(bytes);
  ReadAccounts(bytes);
}

}  // namespace lockstep::fuzz

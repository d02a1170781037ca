#include "lockstep/server/kubernetes_accounts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/platform/auth/token.h"
#include "lockstep/preempt/json_fields.h"
#include "lockstep/preempt/kubernetes_machine.h"
#include "lockstep/server/job_name.h"
#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using preempt::Field;
using preempt::Json;
using preempt::StringField;
using wire::native::Role;
using wire::native::WithReason;

constexpr char kUserPrefix[] = "system:serviceaccount:";
constexpr char kTarget[] = "/apis/authentication.k8s.io/v1/tokenreviews";
constexpr absl::Duration kConnectTimeout = absl::Seconds(1);
constexpr size_t kRejectionBytesMax = 200;
constexpr double kExpiryMax = 253'402'300'799;  // the last second of the year 9999

absl::Status Invalid(const std::string& text) {
  return WithReason(absl::UnauthenticatedError(text), "token_invalid");
}

Review Failed(std::string trouble) {
  return {.verdict = WithReason(
              absl::UnavailableError("the server could not check the token with the Kubernetes API "
                                     "server; the client retries, and the server's log says why"),
              "token_review_failed"),
          .trouble = std::move(trouble)};
}

// What to do about a user that no --kubernetes-account names.
std::string UnknownAccountText(const std::string& user) {
  const std::vector<std::string> parts = absl::StrSplit(user, ':');
  if (parts.size() != 4 || !absl::StartsWith(user, kUserPrefix) ||
      !preempt::IsKubernetesName(parts[2]) || !preempt::IsKubernetesName(parts[3])) {
    return "this server accepts tokens of Kubernetes ServiceAccounts only, and this token belongs "
           "to another kind of user";
  }
  const std::string account = absl::StrCat(parts[2], "/", parts[3]);
  return absl::StrCat("this server accepts no tokens of the ServiceAccount ", account,
                      ": set the pod's `serviceAccountName` to an account that it accepts, or "
                      "start the server with --kubernetes-account ",
                      account, "=ROLE[:JOB]");
}

bool Has(const Json& list, const std::string& text) {
  return list.is_array() && std::any_of(list.begin(), list.end(), [&](const Json& one) {
           return one.is_string() && one.get<std::string>() == text;
         });
}

// What an answer other than a TokenReview means for the operator.
std::string TroubleOf(int status) {
  std::string text = absl::StrCat("the API server answered with HTTP status ", status);
  if (status == 401) {
    text +=
        ": it does not accept this server's own token; check the file that --kubernetes-token "
        "names";
  }
  if (status == 403) {
    text +=
        ": this server's ServiceAccount may not create TokenReviews; bind the ClusterRole "
        "system:auth-delegator to it";
  }
  return text;
}

}  // namespace

absl::StatusOr<KubernetesAccount> ParseKubernetesAccount(const std::string& text) {
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--kubernetes-account '", text, "': ", what,
        "; write NAMESPACE/NAME=ROLE or NAMESPACE/NAME=ROLE:JOB, such as ml/train=launch:digits"));
  };
  const std::pair<std::string, std::string> sides = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (sides.second.empty()) return wrong("the role is missing");
  const std::vector<std::string> account = absl::StrSplit(sides.first, '/');
  if (account.size() != 2) return wrong("the account must be NAMESPACE/NAME");
  if (!preempt::IsKubernetesName(account[0])) return wrong("the namespace has an invalid name");
  if (!preempt::IsKubernetesName(account[1])) {
    return wrong("the ServiceAccount has an invalid name");
  }
  const size_t colon = sides.second.find(':');
  const auto role = auth::ParseRole(sides.second.substr(0, colon));
  if (!role.ok()) return wrong(std::string(role.status().message()));
  KubernetesAccount made{.user = absl::StrCat(kUserPrefix, account[0], ":", account[1]),
                         .rights = {.role = *role}};
  if (colon != std::string::npos) {
    made.rights.job = sides.second.substr(colon + 1);
    if (made.rights.job.empty()) return wrong("the job after ':' is missing");
    if (absl::Status status = CheckJobName(made.rights.job); !status.ok()) {
      return wrong(std::string(status.message()));
    }
  } else if (*role == Role::kTask || *role == Role::kLaunch) {
    return wrong(absl::StrCat("the role ", auth::RoleName(*role), " requires a job"));
  }
  return made;
}

absl::StatusOr<std::vector<KubernetesAccount>> ParseKubernetesAccounts(
    const std::vector<std::string>& texts) {
  if (texts.size() > kKubernetesAccountsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kubernetes-account: ", texts.size(), " accounts are given; at most ",
                     kKubernetesAccountsMax, " are allowed (kubernetes_accounts_max)"));
  }
  std::vector<KubernetesAccount> accounts;
  for (const std::string& text : texts) {
    auto account = ParseKubernetesAccount(text);
    if (!account.ok()) return account.status();
    const bool again = std::any_of(accounts.begin(), accounts.end(),
                                   [&](const auto& other) { return other.user == account->user; });
    if (again) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--kubernetes-account '", text, "': this account is named twice; remove one of the two"));
    }
    accounts.push_back(*std::move(account));
  }
  return accounts;
}

bool IsServiceAccountToken(std::string_view token) {
  if (token.size() > wire::native::kTokenBytes.max) return false;
  const auto fits = [](unsigned char sign) {
    return absl::ascii_isalnum(sign) || sign == '-' || sign == '_' || sign == '.';
  };
  // Of every JWT, whose head is a JSON object.
  return token.substr(0, 2) == "ey" && std::count(token.begin(), token.end(), '.') == 2 &&
         std::all_of(token.begin(), token.end(), fits);
}

std::optional<absl::Time> ExpiryOf(std::string_view token) {
  if (!IsServiceAccountToken(token)) return std::nullopt;
  const size_t begin = token.find('.') + 1;
  const std::string_view claims = token.substr(begin, token.find('.', begin) - begin);
  std::string text;
  if (!absl::WebSafeBase64Unescape({claims.data(), claims.size()}, &text)) return std::nullopt;
  const Json parsed = preempt::ParseJson(text);
  const Json& expiry = Field(parsed, "exp");
  if (!expiry.is_number()) return std::nullopt;
  const auto seconds = expiry.get<double>();
  if (!(seconds >= 0 && seconds <= kExpiryMax)) return std::nullopt;
  return absl::FromUnixSeconds(static_cast<int64_t>(seconds));
}

preempt::HttpRequest ReviewRequest(const KubernetesOptions& options, std::string_view token,
                                   absl::Duration timeout) {
  const Json body = {
      {"apiVersion", "authentication.k8s.io/v1"},
      {"kind", "TokenReview"},
      {"spec", {{"token", std::string(token)}, {"audiences", Json::array({options.audience})}}}};
  return {.method = "POST",
          .target = kTarget,
          .headers = {{"Content-Type", "application/json"}, {"Accept", "application/json"}},
          .body = body.dump(),
          .connect_timeout = std::min(kConnectTimeout, timeout),
          .timeout = timeout,
          .body_bytes_max = kTokenReviewBytesMax};
}

Review ReadReview(const KubernetesOptions& options,
                  const absl::StatusOr<preempt::HttpMessage>& answer, absl::Time until) {
  if (!answer.ok()) return Failed(std::string(answer.status().message()));
  if (answer->status != 200 && answer->status != 201) return Failed(TroubleOf(answer->status));
  const Json review = preempt::ParseJson(answer->body);
  if (review.is_discarded() || StringField(review, "kind") != "TokenReview") {
    return Failed(
        "the answer is not a TokenReview; check that --kubernetes-api names the API server");
  }
  const Json& status = Field(review, "status");
  const Json& authenticated = Field(status, "authenticated");
  if (!authenticated.is_boolean() || !authenticated.get<bool>()) {
    return {
        .verdict = Invalid(absl::StrCat(
            "Kubernetes rejects the token: it has expired, its pod or ServiceAccount was deleted, "
            "or its audience is not '",
            options.audience,
            "'. Check `audience` in the pod's serviceAccountToken volume; if it is right, recreate "
            "the pod")),
        .trouble = {},
        .rejection = observe::CleanText(StringField(status, "error"), kRejectionBytesMax)};
  }
  if (!Has(Field(status, "audiences"), options.audience)) {
    return {.verdict = Invalid(
                absl::StrCat("the token was not made for the audience '", options.audience,
                             "': set `audience` of the projected serviceAccountToken volume"))};
  }
  const std::string user = StringField(Field(status, "user"), "username");
  for (const KubernetesAccount& account : options.accounts) {
    if (account.user != user) continue;
    link::Rights rights = account.rights;
    rights.until = until;
    return {.verdict = std::move(rights)};
  }
  return {.verdict = WithReason(absl::UnauthenticatedError(UnknownAccountText(user)),
                                "token_account_unknown")};
}

}  // namespace lockstep::server

// Kubernetes ServiceAccounts as callers: what each may do, what the API server is asked about a
// token, and what its answer means. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/platform/link/rights.h"
#include "lockstep/preempt/http_message.h"

namespace lockstep::server {

inline constexpr size_t kKubernetesAccountsMax = 256;  // `kubernetes_accounts_max`

struct KubernetesAccount {
  std::string user;  // as Kubernetes calls it: system:serviceaccount:NAMESPACE:NAME
  link::Rights rights;
};

struct KubernetesOptions {
  std::vector<KubernetesAccount> accounts;  // `kubernetes_account`; empty: no such tokens are taken
  std::string api;                          // `kubernetes_api`: an https:// URL
  std::string ca_file;                      // `kubernetes_ca`: whose certificate the API server has
  std::string token_file;                   // `kubernetes_token`: the server's own
  std::string audience = "lockstep";        // `kubernetes_audience`
};

// "NAMESPACE/NAME=ROLE[:JOB]". INVALID_ARGUMENT says what is wrong, and how to write it.
absl::StatusOr<KubernetesAccount> ParseKubernetesAccount(const std::string& text);
// All of them. INVALID_ARGUMENT: also, there are too many, or an account is named twice.
absl::StatusOr<std::vector<KubernetesAccount>> ParseKubernetesAccounts(
    const std::vector<std::string>& texts);

// Whether it has the form of a JWT, which no token of ours has.
bool IsServiceAccountToken(std::string_view token);
// When it says that it expires; nullopt: it does not say. Nothing has verified that.
std::optional<absl::Time> ExpiryOf(std::string_view token);

// Asks the API server whose token that is, within `timeout`. Bounds: the answer has at most
// `token_review_bytes_max`.
preempt::HttpRequest ReviewRequest(const KubernetesOptions& options, std::string_view token,
                                   absl::Duration timeout);
inline constexpr size_t kTokenReviewBytesMax = size_t{64} << 10;

struct Review {
  // UNAUTHENTICATED: `token_invalid`, `token_account_unknown`. UNAVAILABLE: `token_review_failed`,
  // which says nothing about the token.
  absl::StatusOr<link::Rights> verdict;
  std::string trouble;    // for the operator, if it is not the token's fault; empty: there is none
  std::string rejection;  // for the operator, what Kubernetes says of a token that it rejects
};
// What the exchange says about the token, which says of itself that it expires at `until`.
Review ReadReview(const KubernetesOptions& options,
                  const absl::StatusOr<preempt::HttpMessage>& answer, absl::Time until);

}  // namespace lockstep::server

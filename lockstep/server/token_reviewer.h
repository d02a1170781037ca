// Asks the Kubernetes API server whose tokens callers show.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/mutex.h"
#include "lockstep/observe/log_limiter.h"
#include "lockstep/platform/link/rights.h"
#include "lockstep/preempt/descriptor.h"
#include "lockstep/preempt/http_exchange.h"
#include "lockstep/server/kubernetes_accounts.h"
#include "lockstep/server/token_reviews.h"

namespace lockstep::server {

// TokenReviews decides which tokens are asked about; each question is one request over a TLS
// connection of its own, with this server's token, which is read anew for it.
//
// Threads: thread-safe; has `kReviewsMax` of its own, which ask. Bounds: `kReviewsMax` questions at
// a time, each for `timeout`; TokenReviews::Limits. A caller waits for twice `timeout` at most.
class TokenReviewer {
 public:
  static constexpr int kReviewsMax = 4;  // `token_reviews_max`

  using Verdict = TokenReviews::Verdict;
  // Called once, on a thread of the reviewer; dropped uncalled when that is destroyed.
  using Done = absl::AnyInvocable<void(Verdict)>;
  struct Options {
    KubernetesOptions kubernetes;
    absl::Duration timeout = absl::Seconds(2);  // of one question
    TokenReviews::Limits limits = {};           // but `wait_max`, which is `timeout`
    // What an operator should know; on a thread of the reviewer or of `Ask`. Null: not told.
    std::function<void(std::string)> log = nullptr;
  };

  // INVALID_ARGUMENT: `api` is no URL of HTTPS.
  static absl::StatusOr<std::unique_ptr<TokenReviewer>> Start(Options options);
  // Breaks off what is asked.
  ~TokenReviewer();

  // What is known of the token; nullopt: `done` says it. Errors: as ReadReview, `token_expired`,
  // `token_reviews_full`. Returns at once.
  std::optional<Verdict> Ask(std::string_view token, const TokenReviews::Caller& caller, Done done);
  // It wants to know no more: `done` may be dropped uncalled.
  void Leave(uint64_t caller);

 private:
  TokenReviewer(Options options, preempt::HttpExchange exchange);
  void Run();
  // One turn of a thread; false: there is no more.
  bool RunOnce();
  Review AskKubernetes(const std::string& token) const;
  // Troubles have a limit of their own: what strangers cause must not hide what an operator can
  // mend.
  enum class Line { kFlood, kRejection, kTrouble };
  void Log(Line kind, const std::string& what);
  // Those of the callers.
  std::vector<Done> Take(const std::vector<uint64_t>& callers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const preempt::HttpExchange exchange_;
  const preempt::Descriptor interrupt_;
  Mutex mutex_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  TokenReviews reviews_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Done> waiting_ ABSL_GUARDED_BY(mutex_);
  observe::LogLimiter log_of_floods_ ABSL_GUARDED_BY(mutex_);
  observe::LogLimiter log_of_troubles_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::server

#include "lockstep/server/token_reviewer.h"

#include <sys/eventfd.h>

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lockstep/platform/auth/token_keys.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/preempt/tls_exchange.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

// Lines of the log about one trouble, which every caller would cause again.
constexpr int kLogLines = 3;
constexpr absl::Duration kLogInterval = absl::Seconds(10);

// What a line of the log begins with.
constexpr char kCannotCheck[] = "cannot check ServiceAccount tokens";
constexpr char kRejected[] = "Kubernetes rejected a ServiceAccount token";

constexpr char kFull[] =
    "too many tokens wait, of one host or in all (token_reviews_waiting_per_host_max, "
    "token_reviews_waiting_max), or the API server is too slow; clients retry";

absl::Status Expired(absl::Time at) {
  return wire::native::WithReason(
      absl::UnauthenticatedError(
          absl::StrCat("the ServiceAccount token expired at ",
                       absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", at, absl::UTCTimeZone()),
                       ": mount it from a projected volume, whose token Kubernetes renews, and "
                       "not by subPath")),
      "token_expired");
}

TokenReviewer::Options WithWait(TokenReviewer::Options options) {
  options.limits.wait_max = options.timeout;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenReviewer>> TokenReviewer::Start(Options options) {
  auto url = preempt::ParseBaseUrl(options.kubernetes.api);
  if (!url.ok()) return url.status();
  if (!url->tls) return absl::InvalidArgumentError("the URL must begin with https://");
  auto exchange = preempt::TlsExchange(
      *std::move(url),
      {.ca_file = options.kubernetes.ca_file, .token_file = options.kubernetes.token_file});
  return std::unique_ptr<TokenReviewer>(
      new TokenReviewer(WithWait(std::move(options)), std::move(exchange)));
}

TokenReviewer::TokenReviewer(Options options, preempt::HttpExchange exchange)
    : options_(std::move(options)),
      exchange_(std::move(exchange)),
      interrupt_(::eventfd(0, EFD_CLOEXEC)),
      reviews_(options_.limits),
      log_of_floods_(kLogLines, kLogInterval),
      log_of_troubles_(kLogLines, kLogInterval) {
  for (int i = 0; i < kReviewsMax; ++i) threads_.emplace_back([this] { Run(); });
}

TokenReviewer::~TokenReviewer() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  // Afterwards, so that what is broken off is taken for nobody's verdict.
  ::eventfd_write(interrupt_.get(), 1);
  for (std::thread& thread : threads_) thread.join();
}

std::optional<TokenReviewer::Verdict> TokenReviewer::Ask(std::string_view token,
                                                         const TokenReviews::Caller& caller,
                                                         Done done) {
  const std::string digest = auth::DigestOf(token);
  const Time now = runtime::MonotonicNow();
  {
    const MutexLock lock(mutex_);
    if (auto verdict = reviews_.Recall(now, digest)) return verdict;
  }
  // By the wall clock, as tokens say it.
  const std::optional<absl::Time> expiry = ExpiryOf(token);
  const absl::Time wall = absl::Now();
  if (expiry && wall > *expiry + auth::TokenKeys::kClockTolerance) return Expired(*expiry);
  const Time ends = expiry ? now + (*expiry - wall) : Time::Infinite();
  std::optional<Verdict> verdict;
  {
    const MutexLock lock(mutex_);
    verdict = reviews_.Ask(now, digest, token, ends, caller);
    if (!verdict) {
      waiting_.emplace(caller.id, std::move(done));
      changed_.NotifyOne();
    }
  }
  if (verdict && absl::IsUnavailable(verdict->status())) Log(Line::kFlood, kFull);
  return verdict;
}

void TokenReviewer::Leave(uint64_t caller) {
  Done dropped;  // outside of the lock
  const MutexLock lock(mutex_);
  reviews_.Leave(caller);
  const auto node = waiting_.extract(caller);
  if (!node.empty()) dropped = std::move(node.mapped());
}

void TokenReviewer::Run() {
  while (RunOnce()) {
  }
}

bool TokenReviewer::RunOnce() {
  TokenReviews::Step step;
  std::vector<Done> late;
  {
    const MutexLock lock(mutex_);
    while (!ending_) {
      step = reviews_.Next(runtime::MonotonicNow());
      if (step.digest || !step.late.empty()) break;
      changed_.Wait(mutex_);
    }
    if (ending_) return false;
    late = Take(step.late);
  }
  if (!late.empty()) Log(Line::kFlood, kFull);
  for (Done& done : late) done(TokenReviews::Full());
  if (!step.digest) return true;
  const Review review = AskKubernetes(step.token);
  std::vector<Done> callers;
  {
    const MutexLock lock(mutex_);
    if (ending_) return false;
    callers = Take(reviews_.End(runtime::MonotonicNow(), *step.digest, review.verdict));
  }
  if (!review.trouble.empty()) Log(Line::kTrouble, review.trouble);
  if (!review.rejection.empty()) Log(Line::kRejection, review.rejection);
  for (Done& done : callers) done(review.verdict);
  return true;
}

Review TokenReviewer::AskKubernetes(const std::string& token) const {
  const auto answer =
      exchange_(ReviewRequest(options_.kubernetes, token, options_.timeout), interrupt_.get());
  return ReadReview(options_.kubernetes, answer, ExpiryOf(token).value_or(absl::InfiniteFuture()));
}

void TokenReviewer::Log(Line kind, const std::string& what) {
  if (!options_.log) return;
  std::optional<std::string> line;
  {
    const MutexLock lock(mutex_);
    observe::LogLimiter& limiter = kind == Line::kTrouble ? log_of_troubles_ : log_of_floods_;
    line = limiter.Pass(runtime::MonotonicNow(),
                        absl::StrCat(kind == Line::kRejection ? kRejected : kCannotCheck, " with ",
                                     options_.kubernetes.api, ": ", what));
  }
  if (line) options_.log(*std::move(line));
}

std::vector<TokenReviewer::Done> TokenReviewer::Take(const std::vector<uint64_t>& callers) {
  std::vector<Done> done;
  for (const uint64_t caller : callers) {
    auto node = waiting_.extract(caller);
    if (!node.empty()) done.push_back(std::move(node.mapped()));
  }
  return done;
}

}  // namespace lockstep::server

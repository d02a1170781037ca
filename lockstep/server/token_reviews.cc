#include "lockstep/server/token_reviews.h"

#include <algorithm>

#include "absl/status/status.h"
#include "lockstep/base/check.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {

absl::Status TokenReviews::Full() {
  return wire::native::WithReason(
      absl::UnavailableError("too many tokens wait to be checked with the Kubernetes API server "
                             "(token_reviews_waiting_max), or it is too slow; try again"),
      "token_reviews_full");
}

std::optional<TokenReviews::Verdict> TokenReviews::Recall(Time now, const std::string& digest) {
  const auto it = verdicts_.find(digest);
  if (it == verdicts_.end() || it->second.until <= now) return std::nullopt;
  return it->second.verdict;
}

std::optional<TokenReviews::Verdict> TokenReviews::Ask(Time now, const std::string& digest,
                                                       std::string_view token, Time token_ends,
                                                       uint64_t caller) {
  if (auto verdict = Recall(now, digest)) return verdict;
  if (waiting_ >= limits_.waiting_max) return Full();
  const auto [it, added] = pending_.try_emplace(digest);
  if (added) {
    it->second = {.token = std::string(token), .asked_at = now, .token_ends = token_ends};
    queue_.push_back(digest);
  }
  it->second.callers.push_back(caller);
  ++waiting_;
  return std::nullopt;
}

TokenReviews::Step TokenReviews::Next(Time now) {
  Step step;
  while (!queue_.empty()) {
    const std::string digest = std::move(queue_.front());
    queue_.pop_front();
    const auto it = pending_.find(digest);
    LOCKSTEP_DCHECK(it != pending_.end());
    if (now < it->second.asked_at + limits_.wait_max) {
      step.digest = digest;
      step.token = std::move(it->second.token);
      break;
    }
    const std::vector<uint64_t>& late = it->second.callers;
    step.late.insert(step.late.end(), late.begin(), late.end());
    waiting_ -= late.size();
    pending_.erase(it);
  }
  return step;
}

std::vector<uint64_t> TokenReviews::End(Time now, const std::string& digest,
                                        const Verdict& verdict) {
  const auto node = pending_.extract(digest);
  LOCKSTEP_CHECK(!node.empty());
  waiting_ -= node.mapped().callers.size();
  if (!absl::IsUnavailable(verdict.status())) Remember(now, digest, node.mapped(), verdict);
  LOCKSTEP_DCHECK(verdicts_.size() == ends_.size() && verdicts_.size() <= limits_.verdicts_max);
  return node.mapped().callers;
}

void TokenReviews::Remember(Time now, const std::string& digest, const Pending& of,
                            const Verdict& verdict) {
  // Gone are those that have ended, and the one of this token, which has.
  while (!ends_.empty() && (ends_.begin()->first <= now || ends_.size() >= limits_.verdicts_max)) {
    verdicts_.erase(ends_.begin()->second);
    ends_.erase(ends_.begin());
  }
  const Time until = verdict.ok() ? std::min(now + limits_.acceptance_lasts, of.token_ends)
                                  : now + limits_.refusal_lasts;
  if (until <= now) return;
  if (!verdicts_.try_emplace(digest, Remembered{.verdict = verdict, .until = until}).second) return;
  ends_.emplace(until, digest);
}

}  // namespace lockstep::server

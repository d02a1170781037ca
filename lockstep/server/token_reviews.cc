#include "lockstep/server/token_reviews.h"

#include <algorithm>

#include "absl/status/status.h"
#include "lockstep/base/check.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {

absl::Status TokenReviews::Full() {
  return wire::native::WithReason(
      absl::UnavailableError("the server has too many tokens to check, of this host or in all "
                             "(token_reviews_waiting_per_host_max, token_reviews_waiting_max), or "
                             "the Kubernetes API server is too slow; the client retries"),
      "token_reviews_full");
}

std::optional<TokenReviews::Verdict> TokenReviews::Recall(Time now, const std::string& digest) {
  const auto it = verdicts_.find(digest);
  if (it == verdicts_.end() || it->second.until <= now) return std::nullopt;
  return it->second.verdict;
}

std::optional<TokenReviews::Verdict> TokenReviews::Ask(Time now, const std::string& digest,
                                                       std::string_view token, Time token_ends,
                                                       const Caller& caller) {
  if (auto verdict = Recall(now, digest)) return verdict;
  const auto of_host = waiting_of_.find(caller.host);
  if (waiting_.size() >= limits_.waiting_max ||
      (of_host != waiting_of_.end() && of_host->second >= limits_.waiting_per_host_max)) {
    return Full();
  }
  const auto [it, added] = pending_.try_emplace(digest);
  if (added) {
    it->second = {.token = std::string(token),
                  .host = caller.host,
                  .asked_at = now,
                  .token_ends = token_ends};
    queues_[caller.host].push_back(digest);
  }
  it->second.callers.push_back(caller.id);
  const bool is_new =
      waiting_.try_emplace(caller.id, Waiting{.digest = digest, .host = caller.host}).second;
  LOCKSTEP_CHECK(is_new);
  ++waiting_of_[caller.host];
  return std::nullopt;
}

void TokenReviews::Leave(uint64_t caller) {
  const auto it = waiting_.find(caller);
  if (it == waiting_.end()) return;
  const auto pending = pending_.find(it->second.digest);
  LOCKSTEP_CHECK(pending != pending_.end());
  std::erase(pending->second.callers, caller);
  Release({caller});
  if (!pending->second.callers.empty()) return;
  const auto queue = queues_.find(pending->second.host);
  // One that is under review ends by itself.
  if (queue == queues_.end() || std::erase(queue->second, pending->first) == 0) return;
  if (queue->second.empty()) queues_.erase(queue);
  pending_.erase(pending);
}

void TokenReviews::Release(const std::vector<uint64_t>& callers) {
  for (const uint64_t caller : callers) {
    const auto node = waiting_.extract(caller);
    LOCKSTEP_CHECK(!node.empty());
    const auto of_host = waiting_of_.find(node.mapped().host);
    if (--of_host->second == 0) waiting_of_.erase(of_host);
  }
}

std::string TokenReviews::TakeTurn() {
  auto queue = queues_.upper_bound(had_turn_);
  if (queue == queues_.end()) queue = queues_.begin();
  had_turn_ = queue->first;
  std::string digest = std::move(queue->second.front());
  queue->second.pop_front();
  if (queue->second.empty()) queues_.erase(queue);
  return digest;
}

TokenReviews::Step TokenReviews::Next(Time now) {
  Step step;
  while (!queues_.empty()) {
    const std::string digest = TakeTurn();
    const auto it = pending_.find(digest);
    LOCKSTEP_CHECK(it != pending_.end());
    if (now < it->second.asked_at + limits_.wait_max) {
      step.digest = digest;
      step.token = std::move(it->second.token);
      break;
    }
    const std::vector<uint64_t>& late = it->second.callers;
    step.late.insert(step.late.end(), late.begin(), late.end());
    Release(late);
    pending_.erase(it);
  }
  return step;
}

std::vector<uint64_t> TokenReviews::End(Time now, const std::string& digest,
                                        const Verdict& verdict) {
  const auto node = pending_.extract(digest);
  LOCKSTEP_CHECK(!node.empty());
  Release(node.mapped().callers);
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

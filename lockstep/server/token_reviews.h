// Which tokens somebody else is asked about, who waits for that, and what is remembered of the
// answers. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/link/rights.h"

namespace lockstep::server {

// Callers of the same token share one review, and hosts take turns, so that who floods the server
// waits for itself. A verdict is remembered by the token's digest, never
// its text, and not beyond the token's own expiry; an answer that is no verdict (UNAVAILABLE) is
// not. When there is no room for one more verdict, the one that ends first goes.
//
// Threads: thread-compatible. Bounds: Limits. Promises: each caller for whom `Ask` said nothing is
// named once, by `Next` or `End`, unless it leaves, as long as its owner goes on calling `Next`.
class TokenReviews {
 public:
  using Verdict = absl::StatusOr<link::Rights>;
  struct Limits {
    size_t waiting_max = 512;          // `token_reviews_waiting_max`: callers, of all tokens
    size_t waiting_per_host_max = 64;  // `token_reviews_waiting_per_host_max`
    size_t verdicts_max = 4096;        // `token_verdicts_max`
    // A caller that has waited for so long is refused when its turn comes.
    absl::Duration wait_max = absl::Seconds(2);
    absl::Duration acceptance_lasts = absl::Seconds(60);
    absl::Duration refusal_lasts = absl::Seconds(5);
  };

  explicit TokenReviews(const Limits& limits) : limits_(limits) {}

  struct Caller {
    uint64_t id = 0;  // no other one that waits has it
    std::string host;
  };
  // What is remembered. UNAVAILABLE (`token_reviews_full`): too many wait. Nullopt: the caller
  // waits. `token_ends`: when the token expires.
  std::optional<Verdict> Ask(Time now, const std::string& digest, std::string_view token,
                             Time token_ends, const Caller& caller);
  // It waits no more, if it did. A token that nobody waits for is not reviewed.
  void Leave(uint64_t caller);
  // Only what is remembered.
  std::optional<Verdict> Recall(Time now, const std::string& digest);

  struct Step {
    std::optional<std::string> digest;  // to be reviewed, until `End`
    std::string token;
    std::vector<uint64_t> late;  // those are refused: `Full`
  };
  // The next review.
  Step Next(Time now);
  // It is over: who waited for it.
  std::vector<uint64_t> End(Time now, const std::string& digest, const Verdict& verdict);

  // UNAVAILABLE, `token_reviews_full`.
  static absl::Status Full();
  size_t waiting() const { return waiting_.size(); }
  size_t remembered() const { return verdicts_.size(); }

 private:
  struct Pending {
    std::string token;
    std::string host;  // of who asked first: in whose queue it is
    Time asked_at;
    Time token_ends;
    std::vector<uint64_t> callers;
  };
  struct Waiting {
    std::string digest;
    std::string host;
  };
  struct Remembered {
    Verdict verdict;
    Time until;
  };
  // They wait no more.
  void Release(const std::vector<uint64_t>& callers);
  // The digest whose turn it is; only if there is one.
  std::string TakeTurn();
  void Remember(Time now, const std::string& digest, const Pending& of, const Verdict& verdict);

  const Limits limits_;
  absl::flat_hash_map<std::string, Pending> pending_;
  // Of `pending_`, those that are not under review; by host, none of which has none.
  std::map<std::string, std::deque<std::string>> queues_;
  std::string had_turn_;                                 // the host that was last taken from
  absl::flat_hash_map<uint64_t, Waiting> waiting_;       // the callers of `pending_`
  absl::flat_hash_map<std::string, size_t> waiting_of_;  // how many a host has there; never 0
  absl::flat_hash_map<std::string, Remembered> verdicts_;
  std::set<std::pair<Time, std::string>> ends_;  // of `verdicts_`
};

}  // namespace lockstep::server

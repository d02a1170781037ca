// For how long a run of several nodes does without the server at which they meet. Pure.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::launch {

// The others may be well, and the server come back: only a node that has nothing left to do goes.
//
// Threads: thread-compatible.
class NodeServerLoss {
 public:
  explicit NodeServerLoss(absl::Duration timeout) : timeout_(timeout) {}

  // The link broke. While it is lost, the time of the first loss counts.
  void Lose(Time now, std::string why);
  // The link is there again, and the time it was away is forgotten.
  void Find() { since_.reset(); }

  // When a node gives up that has nothing to do since `idle_since` (absent: it never had);
  // infinite: the server is there.
  Time GivenUpAt(std::optional<Time> idle_since) const;
  // Says so, while it is lost. `had_run`: an attempt was on here.
  std::string GivenUpText(Time now, bool had_run, int exit_code) const;

 private:
  const absl::Duration timeout_;
  std::optional<Time> since_;
  std::string why_;
};

}  // namespace lockstep::launch

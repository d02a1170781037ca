// When a server has a job's launchers look by itself where their processes are, and which of these
// looks is the last. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::coord {

// One question to the launchers of a job.
struct StackSnapshot {
  std::string id;  // of the question
  std::string because;
  Time at;
  std::vector<int32_t> awaited;  // members whom others waited for, as far as that is known
};

struct StackSnapshotsOptions {
  // From one look at a time-out until the next, also by launchers: `stacks_interval`. Of several
  // time-outs the first tells most: who has given up goes on to somewhere else.
  absl::Duration interval = absl::Seconds(30);
  // How long a look is of interest, which is how long the answers live.
  absl::Duration kept = absl::Minutes(10);
};

// Threads: thread-compatible. Time: `now` must not go back between calls.
class StackSnapshots {
 public:
  explicit StackSnapshots(StackSnapshotsOptions options) : options_(options) {}

  // Whether a time-out now is worth a look.
  bool Wants(Time now) const { return now >= next_; }
  // Something has timed out, and the launchers are asked.
  void Asks(StackSnapshot look);
  // A launcher has asked them, since a process of it does not move: taken for the last look, unless
  // one at a time-out is that, which tells more.
  void Asked(StackSnapshot look);
  // A process was started. What was seen before is of others, or of what these did until then: it
  // says nothing of why the job does not go on now.
  void ProcessStarted();

  // Null: there is none, or its answers are gone.
  const StackSnapshot* Last(Time now) const;

 private:
  const StackSnapshotsOptions options_;
  std::optional<StackSnapshot> last_;
  Time next_;
};

}  // namespace lockstep::coord

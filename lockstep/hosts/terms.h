// The times that agents and the server agree on. Pure.
#pragma once

#include "absl/time/time.h"

namespace lockstep::hosts {

struct Terms {
  // Between the pings of one agent to one other.
  absl::Duration interval = absl::Milliseconds(500);
  // A host that has not been heard for this long is lost, and one that hears too few others for
  // this long ends its processes: `host_timeout`.
  absl::Duration timeout = absl::Seconds(3);

  // For this long an answer shows that the other is within reach now: two pings may be lost.
  absl::Duration fresh() const { return 3 * interval; }
};

// Between a machine's looks at its clock, and for what may delay one: an agent has ended its
// processes within this after it should have.
inline constexpr absl::Duration kTickEvery = absl::Milliseconds(100);
inline constexpr absl::Duration kSlack = absl::Milliseconds(250);

}  // namespace lockstep::hosts

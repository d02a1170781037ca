// What the rendezvous looks like at a moment, for people. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/rendezvous/messages.h"

namespace lockstep::rendezvous {

// A key that somebody waits for, or whose value nobody has received.
struct KeyRow {
  StepId step;
  MemberIndex peer;  // the other member
  std::string name;
  size_t count = 0;
  uint64_t bytes = 0;
  absl::Duration age;  // of the oldest
};

struct PeerRow {
  MemberIndex peer;
  size_t held = 0;  // for it, not offered yet
  size_t lent = 0;
  uint64_t lent_bytes = 0;
  size_t wants = 0;  // of its, that wait here
  std::string lost;  // why; empty: it is not
};

// Rows: the oldest first, no more than were asked for; totals count all.
struct View {
  std::vector<KeyRow> waiting;    // receives here
  std::vector<KeyRow> unclaimed;  // values here that nobody has received
  std::vector<KeyRow> held;       // values here for others, not offered
  std::vector<KeyRow> wanted;     // others wait for what nobody here has sent
  std::vector<PeerRow> peers;
  size_t steps = 0;
  size_t waits = 0;
  uint64_t held_bytes = 0;
  size_t held_values = 0;
};

}  // namespace lockstep::rendezvous

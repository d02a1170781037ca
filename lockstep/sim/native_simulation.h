// Runs one seed of the world of native clients: sessions that outlive links and the server itself.
// Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "lockstep/coord/options.h"
#include "lockstep/sim/durable_machine.h"

namespace lockstep::sim {

// What one seed of this world tries.
struct NativeScenario {
  uint64_t seed = 0;
  coord::CoordinatorOptions coordinator;
  int operations = 20;  // on keys, of each client
  int rounds = 8;       // of barriers and agreements
  absl::Duration delay_min;
  absl::Duration delay_max;
  absl::Duration sync_max;  // until what the journal was given is durable
  absl::Duration down_max;  // until a server that died is back

  bool crashes = false;      // the server dies and comes back, with what was durable
  bool breaks = false;       // links break
  bool silences = false;     // links fall silent
  bool kills = false;        // a client's process dies; another takes its place
  bool storms = false;       // all links break at once
  bool gives_index = false;  // members are given their index
  absl::Duration faults_last;
  absl::Duration fault_period;
};

NativeScenario DrawNativeScenario(uint64_t seed);
std::string Describe(const NativeScenario& scenario);

struct NativeOptions {
  bool verbose = false;
  // What is driven; null for the real coordinator.
  MakeDurableMachine make_machine;
  // A server that says things before they are durable.
  bool speaks_too_early = false;
};

struct NativeResult {
  uint64_t seed = 0;
  std::string failure;  // empty, or the broken rule
  std::string report;
  int64_t steps = 0;
  uint64_t hash = 0;
  int64_t answered = 0;  // operations on keys
  int64_t passed = 0;    // arrivals at barriers that passed
  int64_t crashes = 0;
  int64_t forgotten = 0;  // records that a crash took away before they were durable
  absl::Duration virtual_time;

  bool ok() const { return failure.empty(); }
};

// Faults are on for a while, then nothing goes wrong any more, and every client must end its work
// within this time.
inline constexpr absl::Duration kNativeJobMax = absl::Minutes(10);

NativeResult RunNativeSeed(uint64_t seed, const NativeOptions& options = {});

}  // namespace lockstep::sim

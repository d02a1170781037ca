// Runs one seed: a coordinator, its clients and what befalls them, in one thread under a virtual
// clock. docs/simulation.md tells how to read and replay a failure.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "lockstep/sim/machine.h"
#include "lockstep/sim/process.h"
#include "lockstep/sim/server.h"

namespace lockstep::sim {

struct RunOptions {
  bool verbose = false;  // the whole trace goes to stdout
  // What is driven; null for the real coordinator.
  std::function<std::unique_ptr<Machine>(const coord::CoordinatorOptions&)> make_machine;
};

struct SeedResult {
  uint64_t seed = 0;
  std::string failure;  // empty, or the broken rule
  std::string report;   // of a failure: seed, scenario, step, the last events, how to replay
  int64_t steps = 0;
  uint64_t hash = 0;  // of all effects, in order
  absl::Duration virtual_time;
  Work work;
  Coverage coverage;

  bool ok() const { return failure.empty(); }
};

// Two phases. First faults are on and jobs may fail. Then all is healed, and two jobs are run after
// each other, of which nothing may fail and which must end within `kHealthyJobMax` each.
inline constexpr absl::Duration kHealthyJobMax = absl::Seconds(120);

// A seed that did less tested nothing: it fails.
inline constexpr int64_t kStepsMin = 40;
// One that does more hangs in a circle.
inline constexpr int64_t kStepsMax = 2'000'000;

SeedResult RunSeed(uint64_t seed, const RunOptions& options = {});

}  // namespace lockstep::sim

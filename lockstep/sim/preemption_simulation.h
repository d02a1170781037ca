// Runs one seed of the world of preemptions: members that work in steps and are told to save, by a
// server that may die. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "lockstep/sim/durable_machine.h"
#include "lockstep/sim/native_simulation.h"

namespace lockstep::sim {

// What one seed tries. Of `world` the network, the journal and the faults count.
struct PreemptionScenario {
  NativeScenario world;
  int notices = 3;  // preemptions, about; each may be said twice, moved or withdrawn
  bool unequal_strides = false;
  bool resumes = false;      // the first step is not 0
  bool starts_late = false;  // some begin to work long after they joined
  bool hangs = false;        // some stop, without a word
  bool finishes = false;     // some have done their work early
  bool fails_to_save = false;
};

PreemptionScenario DrawPreemptionScenario(uint64_t seed, int32_t size = 0);
std::string Describe(const PreemptionScenario& scenario);

struct PreemptionSimOptions {
  bool verbose = false;
  int32_t size = 0;                 // of the job; 0: drawn
  MakeDurableMachine make_machine;  // null for the real coordinator
};

struct PreemptionResult {
  uint64_t seed = 0;
  std::string failure;  // empty, or the broken rule
  std::string report;
  int64_t steps = 0;
  uint64_t hash = 0;
  int64_t opened = 0;  // preemptions
  int64_t agreed = 0;  // of them with a sync step
  int64_t saved = 0;   // saves of members
  int64_t crashes = 0;
  absl::Duration virtual_time;

  bool ok() const { return failure.empty(); }
};

// The rules, for every preemption: all who save do so at one step, the sync step, once each; the
// sync step is one and never changes, on every server; who offered a step and lives comes by it.
// When nothing goes wrong any more every preemption ends, and nobody waits.
PreemptionResult RunPreemptionSeed(uint64_t seed, const PreemptionSimOptions& options = {});

}  // namespace lockstep::sim

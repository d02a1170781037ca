// What goes wrong in a simulation, and when. Pure.
#pragma once

#include <vector>

#include "lockstep/sim/launcher.h"
#include "lockstep/sim/network.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/scenario.h"
#include "lockstep/sim/schedule.h"
#include "lockstep/sim/trace.h"

namespace lockstep::sim {

// From now until the end of the scenario's faults, does to a random process every now and then one
// of the things that the scenario allows.
class Faults {
 public:
  // All references must outlive the faults.
  Faults(Schedule& schedule, Network& network, Launcher& launcher, Trace& trace,
         const Scenario& scenario, Random random);

  void Start();

 private:
  enum class Kind { kKill, kVanish, kStop, kCutOff, kBreak, kReport, kReset };

  void Later();
  void Do(Kind kind, Process& process);
  // Some blinks, some longer than any heartbeat timeout.
  absl::Duration HowLong();

  Schedule& schedule_;
  Network& network_;
  Launcher& launcher_;
  Trace& trace_;
  const Scenario& scenario_;
  Random random_;
  std::vector<Kind> kinds_;
  Time end_;
};

}  // namespace lockstep::sim

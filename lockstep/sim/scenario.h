// What one seed tries: how big the job is, how the network behaves and which faults may happen.
// Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "lockstep/coord/options.h"

namespace lockstep::sim {

// Drawn from the seed. Each seed switches a random subset of the faults on ("swarm"), since faults
// that are always there hide what happens without them.
struct Scenario {
  uint64_t seed = 0;
  coord::CoordinatorOptions coordinator;

  // The network.
  absl::Duration delay_min;
  absl::Duration delay_max;
  bool reorders = false;    // calls of one process may overtake each other
  bool late_timer = false;  // the server's loop is late for its deadlines, by up to 20 ms

  // What may go wrong while faults are on.
  bool kills = false;      // a process dies; its connection breaks
  bool vanishes = false;   // its host does: nothing tells the server
  bool pauses = false;     // stopped for a while; its connection stays
  bool cut_offs = false;   // nothing passes for a while; its connection stays
  bool breaks = false;     // its connection breaks, and it lives on
  bool reports = false;    // a process reports an error
  bool resets = false;     // a process resets itself
  bool strangers = false;  // requests that are wrong in every way
  bool repeats = false;    // requests that arrive twice
  bool noise = false;      // side traffic: keys, cancels, watches

  // The clients.
  bool polls_again = false;      // a client whose connection broke polls over a new one
  bool gives_up_early = false;   // reads and alive queries have short client-side deadlines
  absl::Duration init_timeout;   // for registering
  absl::Duration client_period;  // between heartbeats

  // The launcher.
  bool launcher_tells = false;       // of processes started, ended, stopped and continued
  bool tells_late = false;           // up to seconds later
  bool restarts_one = false;         // only what died, instead of the whole job
  absl::Duration restart_delay_max;  // from the first failure to the new processes
  int attempts_max = 4;              // jobs started while faults are on

  absl::Duration faults_last;   // then all is healed
  absl::Duration fault_period;  // mean time between faults
};

Scenario DrawScenario(uint64_t seed);

// "size=4 recoverable kills pauses ...".
std::string Describe(const Scenario& scenario);

}  // namespace lockstep::sim

// Side traffic of a model process: what user code, strangers and retries add to a job. Pure.
#pragma once

#include "lockstep/sim/agent.h"
#include "lockstep/sim/network.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/scenario.h"

namespace lockstep::sim {

// From now on until the process ends, sends now and then what the scenario allows: key traffic on a
// few shared keys, state watches and cancelled barriers (`noise`), requests that name wrong
// members, services, counters and lists (`strangers`), and requests that the process sent before,
// once more
// (`repeats`). Nobody in the process waits for any of it. `agent` must outlive the process.
void MakeNoise(Network& network, PeerId peer, const Scenario& scenario, Random random,
               Agent& agent);

}  // namespace lockstep::sim

// Runs one seed of the world of agents: stock processes on several hosts, whose calls outlive links
// and the server. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/sim/stock/stock_mutation.h"

namespace lockstep::sim {

struct StockSimResult {
  std::string failure;   // empty, or the broken rule
  std::string report;    // then: what led to it
  int64_t answered = 0;  // operations on keys
  int64_t passed = 0;    // arrivals at barriers that passed
  int64_t shared = 0;    // calls that the answer to another one answered
  int64_t crashes = 0;   // of the server
  int64_t attempts = 0;
  int64_t steps = 0;  // events of the coordinator
};

// Rules:
//   once         each call has one answer, and took effect once; keys are linearizable, barriers
//                pass when all have arrived, a value is what was set
//   undisturbed  while nobody is killed, no process is told of anything: neither the server's
//                deaths nor broken links are seen
//   who          a process that is told of a failure is told whose, and within 0.5 s where
//                nothing else goes wrong
//   fencing      no process of an attempt passes a barrier after another one was let into a later
//                attempt, and no two processes are one task
//   liveness     every wait ends
StockSimResult RunStockSeed(uint64_t seed, StockMutation mutant = StockMutation::kNone);

}  // namespace lockstep::sim

// Runs one seed of the world of the rendezvous: members that send and receive in steps, over a
// network that delays, while some of them die and come back. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/rendezvous/options.h"

namespace lockstep::sim {

// What one seed tries.
struct RendezvousScenario {
  uint64_t seed = 0;
  int members = 2;
  rendezvous::Options options;
  bool kills = false;
  bool aborts = false;
  bool forgets = false;  // limits and times of unopened steps are small: values may be dropped
  bool fetches = false;  // what is not short is fetched, otherwise mapped or fetched
  int names = 2;
  int64_t delay_max_us = 1;
};

RendezvousScenario DrawRendezvousScenario(uint64_t seed);
std::string Describe(const RendezvousScenario& scenario);

struct RendezvousResult {
  uint64_t seed = 0;
  std::string failure;  // empty, or the broken rule
  std::string report;
  int64_t events = 0;
  uint64_t hash = 0;
  int64_t received = 0;
  int64_t failed = 0;  // operations
  int64_t told = 0;
  int64_t roomed = 0;  // sends that waited for room, and got it
  int64_t fetched = 0;
  int64_t put_back = 0;  // fetches that failed
  int64_t mapped = 0;
  int64_t kills = 0;
  int64_t aborted = 0;

  bool ok() const { return failure.empty(); }
};

// The rules: each operation is completed once, and is when nothing goes wrong any more; values of a
// key are received once each, in order, none lost while both sides live and use the step; no value
// is received in a step that was closed or aborted there; what a receiver looks at is not dropped
// by its sender; when all is calm each member knows how many receives of the others wait for it;
// when all steps are closed nothing is left.
RendezvousResult RunRendezvousSeed(uint64_t seed, bool verbose = false);

}  // namespace lockstep::sim

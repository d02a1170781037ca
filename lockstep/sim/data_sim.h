// Runs one seed of the world of the data service: a dispatcher with a journal, workers and
// consumers over a network that delays and cuts, all of which die and come back. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/data/dispatch/iteration_spec.h"
#include "lockstep/data/dispatch/options.h"

namespace lockstep::sim {

// A machine that is deliberately wrong, to see that the rules notice.
enum class DataMutant {
  kNone,
  kSpeaksBeforeItPersists,  // the dispatcher
  kForgetsWhoIsGone,        // the journal: what comes back when a lease ends
  kBlocksLate,              // a consumer says that it is blocked where it has begun already
  kWorkerSkipsAnElement,    // a worker that is asked again begins one further
  kAcknowledgesAhead,       // a consumer says that it has what it has only read ahead
  kNeverSaysUnreachable,    // a consumer, and nobody notices that a worker is gone
  kRobsTheLiving,           // who says that a process has ended, does not look whose
  kForgetsThePast,          // the journal: that rounds stand open again
};

// What one seed tries.
struct DataScenario {
  uint64_t seed = 0;
  dispatch::Mode mode = dispatch::Mode::kFirstCome;
  dispatch::Sharding sharding = dispatch::Sharding::kDynamic;
  dispatch::Visitation visitation = dispatch::Visitation::kExactlyOnce;
  dispatch::OnLost on_lost = dispatch::OnLost::kAuto;
  int workers = 2;
  int consumers = 2;
  int64_t segments = 10;
  int64_t elements = 8;  // of a segment, at most
  bool filters = false;  // how many is not known beforehand
  bool resolves = false;
  bool acknowledges_by_itself = true;
  int64_t acks_each = 1;  // by hand: after so many elements, or when it is told to
  int64_t unacknowledged_max = 10'000;
  bool kills_workers = false;
  bool kills_consumers = false;
  bool kills_dispatcher = false;
  bool cuts = false;           // links
  bool churns = false;         // workers and (rounds) consumers come and go for good
  bool parts = false;          // a consumer never reaches one of the workers
  bool fails = false;          // segments, now and then
  bool sees_ends = false;      // of consumers' processes
  bool older_cursors = false;  // consumers come back from one that is not their last
  bool elastic = false;        // goes on with other numbers of all, from cursors
  int64_t delay_max_us = 1000;
  int64_t step_us = 1000;  // what the program does between two elements
  int64_t faults_until_ms = 0;
  dispatch::Options options;
  DataMutant mutant = DataMutant::kNone;
};

DataScenario DrawDataScenario(uint64_t seed);
std::string Describe(const DataScenario& scenario);

struct DataResult {
  uint64_t seed = 0;
  std::string failure;  // empty, or the broken rule
  std::string report;
  int64_t events = 0;
  uint64_t hash = 0;
  int64_t elements = 0;  // handed out
  int64_t kills = 0;
  int64_t leases_ended = 0;
  int64_t away = 0;      // consumers whose place waited
  int64_t reopened = 0;  // iterations that were finished
  int64_t rewound = 0;   // rounds that stood open again
  int64_t rounds = 0;
  int64_t agreements = 0;  // tasks begun, and seatings
  int64_t resumed = 0;     // from cursors into another iteration
  int64_t longest_stall_us = 0;
  int64_t acks_demanded = 0;  // elements refused until some are acknowledged

  bool ok() const { return failure.empty(); }
};

// The rules: each element is handed out as often as the visitation says, and what the programs kept
// agrees with what was acknowledged; whose
// place waits is lost nothing, from whichever cursor it comes back; exact order is that of a local
// run; in rounds all consumers take the same turns, and each turn is so many elements in a row;
// every request is answered once; an iteration ends in bounded time when nothing goes wrong any
// more, and nothing is left of it when it is collected; a dispatcher that is restored has the state
// of the one that died.
DataResult RunDataScenario(const DataScenario& scenario, bool verbose = false);
DataResult RunDataSeed(uint64_t seed, bool verbose = false);

}  // namespace lockstep::sim

// What the data service looks like at a moment, for people. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/iteration_spec.h"

namespace lockstep::dispatch {

struct DatasetRow {
  DatasetId dataset;
  std::string name;
  std::string identity;
  bool needs_manifest = false;
  bool resolved = false;
  size_t definition_bytes = 0;
  size_t manifest_bytes = 0;
  size_t iterations = 0;
};

struct WorkerRow {
  WorkerId worker;
  std::string address;
  std::string host;
  int64_t pid = 0;
  std::vector<std::string> tags;
  size_t tasks = 0;
  size_t grants = 0;            // first come: not acknowledged
  absl::Duration silent;        // since its last poll
  absl::Duration element_time;  // 0: not known
};

struct ConsumerRow {
  ConsumerId consumer;
  std::string name;
  int32_t index = -1;
  std::string host;
  int64_t pid = 0;
  int64_t round = -1;
  std::optional<int64_t> blocked_round;
  int64_t elements = 0;  // first come: acknowledged
  size_t grants = 0;     // first come: not acknowledged
  // First come: elements that the program has and has not acknowledged.
  int64_t unacknowledged = 0;
  uint64_t unacknowledged_bytes = 0;
  bool away = false;     // rounds: lost; its place waits for its successor
  bool has_all = false;  // it waits, and holds all that it was given
  bool finished = false;
  absl::Duration silent;
  std::string waits_for;
  absl::Duration element_time;
};

// The process that speaks for a consumer, for whom it is to be known that it has ended.
struct ConsumerProcess {
  IterationId iteration;
  ConsumerId consumer;
  ConsumerLife life;
  std::string host;
  int64_t pid = 0;
  std::string machine;  // as it said of itself, in which `pid` means something; empty: it did not
  int64_t started = 0;  // ditto
  std::string job;      // as its token says; empty: any
};

struct TaskRow {
  TaskId task;
  WorkerId worker;             // 0: none
  bool stand_in = false;       // the worker does it for one that is gone
  int64_t starting_round = 0;  // rounds: -1 while pending
  int32_t share = -1;
  bool finished = false;
};

struct IterationRow {
  IterationId iteration;
  IterationSpec spec;
  Phase phase = Phase::kResolving;
  ErrorPtr error;
  int64_t segments = 0;  // kInfinite: no end
  int64_t granted = 0;   // segments, of all shares
  int64_t done = 0;
  int64_t dropped = 0;   // at most once: segments that were given up
  int64_t elements = 0;  // acknowledged
  int64_t round = -1;    // the latest that a consumer reported
  // Rounds: what is to be agreed on, in a sentence; empty: nothing.
  std::string agreeing;
  std::string waits_for;       // who waits for whom, in a sentence; empty: nobody
  int64_t workers_wanted = 0;  // 0: not known
  std::vector<ConsumerRow> consumers;
  std::vector<TaskRow> tasks;
};

struct View {
  std::vector<DatasetRow> datasets;
  std::vector<IterationRow> iterations;
  std::vector<WorkerRow> workers;
  int64_t workers_wanted = 0;  // over all iterations; 0: not known
  size_t parked = 0;
};

// How far a view has been read that is read a little at a time (Dispatcher::ReadView). What is read
// of it later is as it is then; an entry that stays is in it once.
struct ViewCursor {
  enum class Part { kBegin, kDatasets, kIterations, kWorkers, kEnd };
  Part part = Part::kBegin;
  // The last that was read of each.
  std::optional<DatasetId> dataset;
  std::optional<IterationId> iteration;
  std::optional<WorkerId> worker;
  std::map<DatasetId, size_t> iterations_of = {};
  std::map<WorkerId, size_t> tasks_of = {};
  int64_t workers_wanted = 0;
};

}  // namespace lockstep::dispatch

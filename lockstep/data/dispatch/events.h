// Everything that can happen to the dispatcher. Pure.
//
// Requests carry a call and are answered exactly once, by a Reply with the same call id, unless the
// caller leaves first (`CallLeft`). The two polls are parked until there is something new, or
// their `wait` is over. Facts (`...LinkEnded`, `DeadlineReached`) are not answered.
//
// Every request may come again after its answer was lost, and then has its effect once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/data/dispatch/error.h"
#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/iteration_spec.h"

namespace lockstep::dispatch {

// --- Datasets ---

// Answered with DatasetRegistered: the same definition always has the same id. The shell has
// checked the definition.
struct RegisterDataset {
  CallId call;
  std::string name;        // chosen by the client; empty: the identity is its name
  std::string identity;    // of the definition: 32 hex digits
  std::string definition;  // bytes
  std::string element_spec;
  bool needs_manifest = false;  // it reads files, which a worker has to list first
};

// Answered with DatasetGiven. By id, or (id 0) by name.
struct GetDataset {
  CallId call;
  DatasetId dataset;
  std::string name;
};

// --- Consumers ---

// What a consumer of a first-come iteration has safely, when it comes back under its name: more
// than the dispatcher may have heard of.
struct LaneAck {
  LaneId lane;
  int64_t seq = 0;       // which grant of the lane
  int64_t elements = 0;  // of its segment, from the segment's beginning: all before this one
  bool done = false;     // that was all of the segment: it has `elements`
};

// Opens the iteration when there is none, and becomes one of its consumers. Answered with
// IterationOpened.
struct OpenIteration {
  CallId call;
  IterationSpec spec;
  std::string consumer;  // its name within the iteration; the same name is the same consumer
  ConsumerLife life;     // of the process that asks: another one replaces the former
  int32_t index = -1;    // exact and rounds: which of them it is; -1: any that is free
  std::vector<LaneAck> have;
  // Exact and rounds: where it goes on within this iteration, when it has been in it before.
  std::optional<ReadingPlace> from;
  std::string host;  // for people
  int64_t pid = 0;
  // Where `pid` means something, and when the process started: by which the shell knows its end.
  std::string machine;
  int64_t started = 0;
  bool member = false;  // of a job: whoever takes its place there takes it here
  std::string job;      // as its token says; empty: it has none, or one for all jobs
};

// How far the consumer has come in a lane, exact and rounds: grants before `seq` it needs no more,
// and up to `needs` it cannot do without for what it hands out next.
struct LaneProgress {
  LaneId lane;
  int64_t seq = 0;
  int64_t needs = 0;
};

// How many elements the segment of a grant has, as its reader found.
struct SegmentCount {
  LaneId lane;
  int64_t seq = 0;
  int64_t elements = 0;
};

// A worker's answer that is not about the wire: the segment cannot be made.
struct SegmentFailure {
  LaneId lane;
  int64_t seq = 0;
  int64_t segment = 0;
  WorkerId worker;
  ErrorPtr error;  // the worker's own
};

// Parked until the consumer's assignment is another than `after`. Answered with Assignment.
struct ConsumerPoll {
  CallId call;
  IterationId iteration;
  ConsumerId consumer;
  ConsumerLife life;
  int64_t number = 0;  // of the poll within the life, from 1 up: reports of an older one are stale
  uint64_t service = 0;  // of the answer that `after` is from
  int64_t after = 0;     // 0: answer at once
  absl::Duration wait;
  std::vector<LaneAck> acks;           // first come
  std::vector<LaneProgress> progress;  // exact and rounds
  std::vector<SegmentCount> counts;
  std::vector<WorkerId> unreachable;
  std::vector<SegmentFailure> failures;
  int64_t round = 0;                     // rounds: the one it is in
  std::optional<int64_t> blocked_round;  // rounds: it begins this one only when it is told to
  bool finished = false;                 // exact and rounds: it has read to the end...
  ReadingPlace end;                      // ...which is here
  std::string waits_for;                 // for people: "segment 17 of worker ..."
  absl::Duration element_time;  // between two elements that the program asked for; 0: not known
  // First come, acknowledged by hand: the program has all elements of its grants before this one...
  int64_t handed_before = 0;
  // ...holds so many that it has not acknowledged...
  int64_t unacknowledged = 0;
  uint64_t unacknowledged_bytes = 0;
  bool has_all = false;        // ...and waits, or was told of the end: it has all it was given
  bool keeps_cursors = false;  // exact and rounds: the program keeps cursors
};

// Answered with success, also when there is no such consumer (any more).
struct CloseConsumer {
  CallId call;
  IterationId iteration;
  ConsumerId consumer;
  ConsumerLife life;
  std::vector<LaneAck> acks;  // the last ones
  // Exact and rounds: how far it came, more than its last poll may have said.
  int64_t round = 0;
  bool finished = false;
  ReadingPlace end;
};

// --- Workers ---

// What a worker found when it listed a dataset's files.
struct ResolveReport {
  DatasetId dataset;
  std::string manifest;  // bytes
  int64_t files = 0;     // for people
  ErrorPtr error;        // there is no manifest
};

// How long the worker takes for an element of the iteration's dataset.
struct ProcessingTime {
  DatasetId dataset;
  absl::Duration element_time;
};

// The first one registers the worker; each is a sign of life. Parked until there is other work than
// `after`. Answered with WorkerOrders.
struct WorkerPoll {
  CallId call;
  WorkerId worker;
  int32_t version = 0;  // of what workers and dispatcher agree on: Options::worker_version
  std::string address;  // where consumers reach it
  // Bytes for its consumers, and for nobody else: by which ways its memory can be reached, and the
  // secret that they show it.
  std::string host_card;
  std::vector<std::string> tags;
  std::string host;  // for people
  int64_t pid = 0;
  uint64_t service = 0;
  int64_t after = 0;
  absl::Duration wait;
  std::vector<ResolveReport> resolved;
  std::vector<ProcessingTime> times;
  bool leaving = false;  // it wants no work any more: all of it goes to others
};

// --- All ---

// The caller of a parked call does not wait any more.
struct CallLeft {
  CallId call;
};
// The link over which the worker, or the consumer, spoke is gone. That is no proof of a death.
struct WorkerLinkEnded {
  WorkerId worker;
};
struct ConsumerLinkEnded {
  IterationId iteration;
  ConsumerId consumer;
};
// The process that spoke for the consumer has ended: whoever could see it says so. Nothing when
// another process speaks for it by now.
struct ConsumerEnded {
  IterationId iteration;
  ConsumerId consumer;
  ConsumerLife life;
};
struct DeadlineReached {};
// All records have been applied: who was there has its full time to come back.
struct Restored {};
// The service ends: who waits is told.
struct Stop {};

using Event = std::variant<RegisterDataset, GetDataset, OpenIteration, ConsumerPoll, CloseConsumer,
                           WorkerPoll, CallLeft, WorkerLinkEnded, ConsumerLinkEnded, ConsumerEnded,
                           DeadlineReached, Restored, Stop>;

}  // namespace lockstep::dispatch

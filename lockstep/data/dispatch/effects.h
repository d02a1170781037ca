// What the dispatcher wants done. Pure. The shell carries effects out in the order of the fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/data/dispatch/error.h"
#include "lockstep/data/dispatch/events.h"
#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/iteration_spec.h"
#include "lockstep/data/dispatch/records.h"

namespace lockstep::dispatch {

struct DatasetRegistered {
  DatasetId dataset;
  std::string name;
};
struct DatasetGiven {
  DatasetId dataset;
  std::string name;
  std::string identity;
  std::string definition;
  std::string element_spec;
  bool needs_manifest = false;
  bool resolved = false;  // there is a manifest, or none is needed
  std::string manifest;
};

// A consumer is one, or is it again.
struct IterationOpened {
  IterationId iteration;
  ConsumerId consumer;
  std::string name;    // of the iteration, as it was made when none was given
  int32_t index = -1;  // exact and rounds: which of the consumers it is
  // First come: this consumer was here before, and what it had not acknowledged was given to others
  // when it left or its lease ended. Of those grants so much counted; what it did beyond is void.
  // Of its lanes of then, what is not listed counted whole up to the last that is; nothing behind.
  bool lease_had_ended = false;
  std::vector<LaneAck> counted;
};

// One segment of a lane. The reader asks `worker` for it, from element `from` on; who that is may
// change at any time, and matters to nobody.
struct Grant {
  int64_t seq = 0;  // from 0 up in the lane
  int64_t segment = 0;
  int64_t from = 0;       // elements before this one belong to somebody else, or are acknowledged
  WorkerId worker;        // 0: there is none at the moment
  int64_t elements = -1;  // of the segment, when known
};

struct Lane {
  LaneId lane;
  TaskId task;  // rounds: whose lane it is; otherwise of the first grant, 0 when there is none
  // Rounds: the first in which it is read. Its place in a round is its place in the list.
  int64_t starting_round = 0;
  // Rounds: in round `base_round` its turn begins at element `base_element` of the lane. Elements
  // of a lane are counted from 0 through all its grants, without those before a grant's `from`.
  int64_t base_round = 0;
  int64_t base_element = 0;
  // How many elements of the lane stand before its first grant here; -1: whoever reads knows.
  int64_t first_element = 0;
  // First come: all grants before this one are acknowledged; -1: those before the first one here.
  int64_t done_before = -1;
  std::vector<Grant> grants;
  bool closed = false;  // no grant comes behind these
};

// Rounds: from `first_round` on so many consumers read. Of each turn of a lane, which is so many
// elements, consumer number i takes the i-th.
struct Seating {
  int64_t first_round = 0;
  int32_t consumers = 0;
  int32_t index = -1;  // of the one who is told; -1: it is not among them
  bool operator==(const Seating&) const = default;
};

struct WorkerAddress {
  WorkerId worker;
  std::string address;
  std::string host_card;
};

enum class Phase {
  kResolving,  // a worker lists the files, or there is no worker
  kReading,
  kFinished,
  kFailed,
  kCollected,
};

// All that a consumer has to know, each time in full. Exact and rounds: the same for all but for
// `seatings[].index` and where each one is.
struct Assignment {
  uint64_t service = 0;  // which life of the dispatcher; versions of another one say nothing
  int64_t version = 0;
  Phase phase = Phase::kResolving;
  ErrorPtr error;  // in kFailed and kCollected
  std::vector<Lane> lanes;
  std::vector<WorkerAddress> workers;  // who are named in the lanes
  std::optional<int64_t> block_round;  // rounds: begin none from this one on
  std::vector<Seating> seatings;       // rounds: by first_round
  int64_t next_segment = 0;            // no segment from this one on has been granted
  std::vector<std::pair<int64_t, int64_t>>
      returned;           // granted before, to be granted again: (segment, from)
  std::string waits_for;  // in kResolving: for whom, and since when; for people
  // First come: all was given, and nobody but this consumer holds what is not acknowledged.
  bool rest_is_own = false;
  // First come: why nothing more is given before something is acknowledged; empty: more is given.
  std::string ack_needed;
};

struct ConsumerClosed {};

// A task as a worker sees it: its share of an iteration.
struct WorkerTask {
  TaskId task;
  IterationId iteration;
  DatasetId dataset;
  int64_t starting_round = -1;  // rounds: -1 while it is pending
};

struct WorkerOrders {
  uint64_t service = 0;
  int64_t version = 0;
  std::vector<WorkerTask> tasks;   // all of them
  std::vector<DatasetId> resolve;  // list the files of these, and report
  absl::Duration poll_within;      // the next poll is due so long after this answer at the latest
};

using Answer = std::variant<std::monostate, DatasetRegistered, DatasetGiven, IterationOpened,
                            Assignment, ConsumerClosed, WorkerOrders>;

// The one answer to a call: the error when there is one, else the answer.
struct Reply {
  CallId call;
  ErrorPtr error;
  Answer answer;
};

enum class Severity { kInfo, kWarning, kError };

// A sentence for the operator. Each transition gives one.
struct LogEntry {
  Severity severity = Severity::kInfo;
  std::string text;
};

struct Effects {
  // To be durable before anything below leaves the process.
  std::vector<Record> records;
  std::vector<Reply> replies;
  std::vector<LogEntry> log;

  // The call is answered; each call is answered once.
  void Succeed(CallId call, Answer answer = {}) {
    replies.push_back({call, nullptr, std::move(answer)});
  }
  // `error` is not null.
  void Fail(CallId call, ErrorPtr error) { replies.push_back({call, std::move(error), {}}); }
  // A line for the log and the events of the service.
  void Tell(Severity severity, std::string text) { log.push_back({severity, std::move(text)}); }
};

}  // namespace lockstep::dispatch

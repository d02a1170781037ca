// What the dispatcher wants to remember beyond its own death. Pure.
//
// A record says what became of a thing, not what was asked: applying the records of a snapshot and
// those behind it, in order, gives the state back. Live changes go the same way: each is a record
// that is applied at once. What lives only as long as somebody's connection (parked polls, workers,
// reports of progress, who is ready for a target round) is in none.
//
// The records of one `Effects` are one unit: after a crash all of them are there, or none.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/error.h"
#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/iteration_spec.h"

namespace lockstep::dispatch {

// A run of a segment that is still to be given: from this element on.
struct SegmentRest {
  int64_t segment = 0;
  int64_t from = 0;
  auto operator<=>(const SegmentRest&) const = default;
};

// A grant of a lane that all have read.
struct PastGrant {
  int64_t segment = 0;
  int64_t from = 0;
  int64_t elements = 0;  // of the segment
  bool operator==(const PastGrant&) const = default;
};

namespace record {

// Ids below these are used up, whoever had them.
struct CountersKept {
  int64_t next_id = 0;
  bool operator==(const CountersKept&) const = default;
};

struct DatasetRegistered {
  DatasetId dataset;
  std::string name;
  std::string identity;
  std::string definition;
  std::string element_spec;
  bool needs_manifest = false;
  bool operator==(const DatasetRegistered&) const = default;
};
// A worker has listed its files.
struct DatasetResolved {
  DatasetId dataset;
  std::string manifest;
  bool operator==(const DatasetResolved&) const = default;
};
// Its files are not what they were: who registers the definition again gets another dataset.
struct DatasetRetired {
  DatasetId dataset;
  bool operator==(const DatasetRetired&) const = default;
};
struct DatasetForgotten {
  DatasetId dataset;
  bool operator==(const DatasetForgotten&) const = default;
};

struct IterationOpened {
  IterationId iteration;
  IterationSpec spec;
  bool operator==(const IterationOpened&) const = default;
};
// Its dataset is resolved: segments can be given.
struct IterationStarted {
  IterationId iteration;
  bool operator==(const IterationStarted&) const = default;
};
struct IterationEnded {
  IterationId iteration;
  ErrorPtr error;  // null: all was read
  bool operator==(const IterationEnded& other) const {
    return iteration == other.iteration && (error == nullptr) == (other.error == nullptr) &&
           (error == nullptr || *error == *other.error);
  }
};
// It is read again, from an older place. Exact and rounds.
struct IterationReopened {
  IterationId iteration;
  bool operator==(const IterationReopened&) const = default;
};
// Rounds: from here on it waits for consumers that are lost.
struct LostAwaited {
  IterationId iteration;
  bool operator==(const LostAwaited&) const = default;
};
// Nothing of it is known any more.
struct IterationCollected {
  IterationId iteration;
  bool operator==(const IterationCollected&) const = default;
};

struct ConsumerJoined {
  IterationId iteration;
  ConsumerId consumer;
  std::string name;
  ConsumerLife life;
  int32_t index = -1;
  std::string host;
  int64_t pid = 0;
  std::string machine;
  int64_t started = 0;
  std::string job;
  bool operator==(const ConsumerJoined&) const = default;
};
// Another process speaks for it now.
struct ConsumerReplaced {
  IterationId iteration;
  ConsumerId consumer;
  ConsumerLife life;
  std::string host;
  int64_t pid = 0;
  std::string machine;
  int64_t started = 0;
  std::string name;  // empty: as before
  std::string job;
  bool operator==(const ConsumerReplaced&) const = default;
};
// Exact and rounds: it has read to the end, which is there.
struct ConsumerFinished {
  IterationId iteration;
  ConsumerId consumer;
  ReadingPlace end;
  bool operator==(const ConsumerFinished&) const = default;
};
// First come: what it had not acknowledged goes back, as the iteration's visitation says.
struct ConsumerGone {
  IterationId iteration;
  ConsumerId consumer;
  bool lease_ended = false;  // else it left by itself
  bool operator==(const ConsumerGone&) const = default;
};

// Rounds, where it waits for who is lost: its place waits for its successor. It comes back itself
// under its life unless its process has ended.
struct ConsumerAway {
  IterationId iteration;
  ConsumerId consumer;
  bool ended = false;
  bool operator==(const ConsumerAway&) const = default;
};

// A share of the iteration: rounds, and where each worker (or share) has segments of its own.
struct TaskAdded {
  IterationId iteration;
  TaskId task;
  std::string home;  // the address of the worker that it was made for; empty: of none
  int32_t share = -1;
  int64_t starting_round = 0;  // rounds: -1 while it is pending
  bool operator==(const TaskAdded&) const = default;
};
// Rounds: all consumers begin to read it in this round.
struct TaskStarted {
  IterationId iteration;
  TaskId task;
  int64_t starting_round = 0;
  bool operator==(const TaskStarted&) const = default;
};

// Rounds: from this round on these consumers read; number i is the i-th.
struct SeatingAgreed {
  IterationId iteration;
  int64_t first_round = 0;
  std::vector<ConsumerId> consumers;
  bool operator==(const SeatingAgreed&) const = default;
};

// The next grant of a lane: of rounds, and of first come.
struct Granted {
  IterationId iteration;
  LaneId lane;
  TaskId task;  // whose segments they are; 0: the iteration's
  int64_t seq = 0;
  int64_t segment = 0;
  int64_t from = 0;
  bool operator==(const Granted&) const = default;
};
// First come: the consumer has these elements safely.
struct Acknowledged {
  IterationId iteration;
  LaneId lane;
  int64_t seq = 0;
  int64_t elements = 0;
  bool done = false;
  bool operator==(const Acknowledged&) const = default;
};
// Rounds: nobody needs grants before `seq` any more.
struct LaneTrimmed {
  IterationId iteration;
  LaneId lane;
  int64_t seq = 0;
  int64_t first_element = 0;  // of the lane, where grant `seq` begins
  bool operator==(const LaneTrimmed&) const = default;
};
// Rounds: nobody is in a round before this one any more, with which a seating begins.
struct SeatingsTrimmed {
  IterationId iteration;
  int64_t first_round = 0;
  bool operator==(const SeatingsTrimmed&) const = default;
};
// Rounds: no grant comes behind the last.
struct LaneClosed {
  IterationId iteration;
  LaneId lane;
  bool operator==(const LaneClosed&) const = default;
};
// Rounds: how many elements the segment of a grant has.
struct Counted {
  IterationId iteration;
  LaneId lane;
  int64_t seq = 0;
  int64_t elements = 0;
  bool operator==(const Counted&) const = default;
};

// Rounds: somebody reads again from this round on; what was trimmed of it stands open again.
struct HistoryReturned {
  IterationId iteration;
  int64_t round = 0;
  bool operator==(const HistoryReturned&) const = default;
};

// --- Only in snapshots ---

struct PoolKept {
  IterationId iteration;
  TaskId task;  // 0: the iteration's
  int64_t next = 0;
  std::vector<SegmentRest> returned;
  bool operator==(const PoolKept&) const = default;
};
struct LaneKept {
  IterationId iteration;
  LaneId lane;
  TaskId task;
  int64_t next_seq = 0;
  int64_t first_element = 0;
  int64_t base_round = 0;
  int64_t base_element = 0;
  bool closed = false;
  bool operator==(const LaneKept&) const = default;
};
struct GrantKept {
  IterationId iteration;
  LaneId lane;
  TaskId task;
  int64_t seq = 0;
  int64_t segment = 0;
  int64_t from = 0;
  int64_t acknowledged = 0;  // first come: all before this one
  int64_t elements = -1;     // of the segment, when known
  bool done = false;
  bool operator==(const GrantKept&) const = default;
};
// Rounds: what was trimmed of the lane, just before its first grant.
struct PastKept {
  IterationId iteration;
  LaneId lane;
  std::vector<PastGrant> grants;
  bool operator==(const PastKept&) const = default;
};
struct TotalsKept {
  IterationId iteration;
  int64_t segments_done = 0;
  int64_t elements_done = 0;
  int64_t segments_dropped = 0;
  bool operator==(const TotalsKept&) const = default;
};
// First come: a consumer that is gone, and what counted of it.
struct LeaverKept {
  IterationId iteration;
  ConsumerId consumer;
  std::string name;
  std::vector<int64_t> seqs;      // of its lane: what was not all acknowledged...
  std::vector<int64_t> elements;  // ...and how many of each were
  bool operator==(const LeaverKept&) const = default;
};
// These have read to the end, which is there (exact), and may be gone.
struct FinishersKept {
  IterationId iteration;
  std::vector<int32_t> indices;
  ReadingPlace end;
  bool operator==(const FinishersKept&) const = default;
};

}  // namespace record

using Record =
    std::variant<record::CountersKept, record::DatasetRegistered, record::DatasetResolved,
                 record::DatasetRetired, record::DatasetForgotten, record::IterationOpened,
                 record::IterationStarted, record::IterationEnded, record::IterationCollected,
                 record::ConsumerJoined, record::ConsumerReplaced, record::ConsumerFinished,
                 record::ConsumerGone, record::TaskAdded, record::TaskStarted,
                 record::SeatingAgreed, record::Granted, record::Acknowledged, record::LaneTrimmed,
                 record::SeatingsTrimmed, record::LaneClosed, record::Counted, record::PoolKept,
                 record::LaneKept, record::GrantKept, record::TotalsKept, record::LeaverKept,
                 record::FinishersKept, record::IterationReopened, record::LostAwaited,
                 record::ConsumerAway, record::HistoryReturned, record::PastKept>;

// A record and when it came to be.
struct TimedRecord {
  Time at;
  Record record;
};

}  // namespace lockstep::dispatch

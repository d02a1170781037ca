// What a journal holds of the data service, as messages. Contract:
// proto/lockstep/store/v1/records.proto. What they mean is said in lockstep/dispatch/records.h.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lockstep/wire/native/field.h"

namespace lockstep::wire::store {

using native::Bytes;
using native::Field;

// --- The data service ---

struct DataError {
  int32_t code = 0;
  std::string reason;
  Bytes message;

  friend bool operator==(const DataError&, const DataError&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.DataError";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "code", &DataError::code),
                           Field(2, "reason", &DataError::reason),
                           Field(3, "message", &DataError::message));
  }
};

// How far a reading is. Exact: elements of the dataset before it, of all consumers; rounds: the
// round, and how many turns of it are over.
struct ReadingPlace {
  int64_t elements = 0;
  int64_t round = 0;
  int64_t turns = 0;

  friend bool operator==(const ReadingPlace&, const ReadingPlace&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.ReadingPlace";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "elements", &ReadingPlace::elements),
                           Field(2, "round", &ReadingPlace::round),
                           Field(3, "turns", &ReadingPlace::turns));
  }
};

struct DataCountersKept {
  // Ids below these are used up.
  int64_t next_id = 0;

  friend bool operator==(const DataCountersKept&, const DataCountersKept&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.DataCountersKept";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "next_id", &DataCountersKept::next_id));
  }
};

struct DatasetRegistered {
  int64_t dataset = 0;
  Bytes name;
  std::string identity;
  // An encoded lockstep.v1.DataDefinition.
  Bytes definition;
  Bytes element_spec;
  bool needs_manifest = false;

  friend bool operator==(const DatasetRegistered&, const DatasetRegistered&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.DatasetRegistered";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "dataset", &DatasetRegistered::dataset),
                           Field(2, "name", &DatasetRegistered::name),
                           Field(3, "identity", &DatasetRegistered::identity),
                           Field(4, "definition", &DatasetRegistered::definition),
                           Field(5, "element_spec", &DatasetRegistered::element_spec),
                           Field(6, "needs_manifest", &DatasetRegistered::needs_manifest));
  }
};

struct DatasetResolved {
  int64_t dataset = 0;
  // An encoded lockstep.v1.DataManifest.
  Bytes manifest;

  friend bool operator==(const DatasetResolved&, const DatasetResolved&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.DatasetResolved";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "dataset", &DatasetResolved::dataset),
                           Field(2, "manifest", &DatasetResolved::manifest));
  }
};

// Its files are not what they were: the definition becomes another dataset.
struct DatasetRetired {
  int64_t dataset = 0;

  friend bool operator==(const DatasetRetired&, const DatasetRetired&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.DatasetRetired";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "dataset", &DatasetRetired::dataset));
  }
};

struct DatasetForgotten {
  int64_t dataset = 0;

  friend bool operator==(const DatasetForgotten&, const DatasetForgotten&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.DatasetForgotten";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "dataset", &DatasetForgotten::dataset));
  }
};

// Numbers of enums are those of lockstep.v1.
struct IterationOpened {
  int64_t iteration = 0;
  Bytes name;
  int64_t repetition = 0;
  int64_t dataset = 0;
  int32_t mode = 0;
  int32_t sharding = 0;
  int32_t visitation = 0;
  int32_t consumers = 0;
  int32_t shares = 0;
  std::vector<Bytes> worker_addresses;
  Bytes cursor;
  int32_t on_lost = 0;

  friend bool operator==(const IterationOpened&, const IterationOpened&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.IterationOpened";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &IterationOpened::iteration),
                           Field(2, "name", &IterationOpened::name),
                           Field(3, "repetition", &IterationOpened::repetition),
                           Field(4, "dataset", &IterationOpened::dataset),
                           Field(5, "mode", &IterationOpened::mode),
                           Field(6, "sharding", &IterationOpened::sharding),
                           Field(7, "visitation", &IterationOpened::visitation),
                           Field(8, "consumers", &IterationOpened::consumers),
                           Field(9, "shares", &IterationOpened::shares),
                           Field(10, "worker_addresses", &IterationOpened::worker_addresses),
                           Field(11, "cursor", &IterationOpened::cursor),
                           Field(12, "on_lost", &IterationOpened::on_lost));
  }
};

struct IterationStarted {
  int64_t iteration = 0;

  friend bool operator==(const IterationStarted&, const IterationStarted&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.IterationStarted";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &IterationStarted::iteration));
  }
};

struct IterationEnded {
  int64_t iteration = 0;
  // Absent: all was read.
  std::optional<DataError> error;

  friend bool operator==(const IterationEnded&, const IterationEnded&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.IterationEnded";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &IterationEnded::iteration),
                           Field(2, "error", &IterationEnded::error));
  }
};

struct IterationCollected {
  int64_t iteration = 0;

  friend bool operator==(const IterationCollected&, const IterationCollected&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.IterationCollected";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &IterationCollected::iteration));
  }
};

struct ConsumerJoined {
  int64_t iteration = 0;
  int64_t consumer = 0;
  Bytes name;
  uint64_t life = 0;
  std::optional<int32_t> index;
  Bytes host;
  int64_t pid = 0;
  Bytes machine;
  int64_t started = 0;

  friend bool operator==(const ConsumerJoined&, const ConsumerJoined&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.ConsumerJoined";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "iteration", &ConsumerJoined::iteration),
        Field(2, "consumer", &ConsumerJoined::consumer), Field(3, "name", &ConsumerJoined::name),
        Field(4, "life", &ConsumerJoined::life), Field(5, "index", &ConsumerJoined::index),
        Field(6, "host", &ConsumerJoined::host), Field(7, "pid", &ConsumerJoined::pid),
        Field(8, "machine", &ConsumerJoined::machine),
        Field(9, "started", &ConsumerJoined::started));
  }
};

struct ConsumerReplaced {
  int64_t iteration = 0;
  int64_t consumer = 0;
  uint64_t life = 0;
  Bytes host;
  int64_t pid = 0;
  Bytes machine;
  int64_t started = 0;
  // Empty: as before.
  Bytes name;

  friend bool operator==(const ConsumerReplaced&, const ConsumerReplaced&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.ConsumerReplaced";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "iteration", &ConsumerReplaced::iteration),
        Field(2, "consumer", &ConsumerReplaced::consumer),
        Field(3, "life", &ConsumerReplaced::life), Field(4, "host", &ConsumerReplaced::host),
        Field(5, "pid", &ConsumerReplaced::pid), Field(6, "machine", &ConsumerReplaced::machine),
        Field(7, "started", &ConsumerReplaced::started), Field(8, "name", &ConsumerReplaced::name));
  }
};

struct ConsumerFinished {
  int64_t iteration = 0;
  int64_t consumer = 0;
  ReadingPlace end;

  friend bool operator==(const ConsumerFinished&, const ConsumerFinished&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.ConsumerFinished";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &ConsumerFinished::iteration),
                           Field(2, "consumer", &ConsumerFinished::consumer),
                           Field(3, "end", &ConsumerFinished::end));
  }
};

struct ConsumerGone {
  int64_t iteration = 0;
  int64_t consumer = 0;
  bool lease_ended = false;

  friend bool operator==(const ConsumerGone&, const ConsumerGone&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.ConsumerGone";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &ConsumerGone::iteration),
                           Field(2, "consumer", &ConsumerGone::consumer),
                           Field(3, "lease_ended", &ConsumerGone::lease_ended));
  }
};

struct TaskAdded {
  int64_t iteration = 0;
  int64_t task = 0;
  Bytes home;
  std::optional<int32_t> share;
  // Absent: it is pending.
  std::optional<int64_t> starting_round;

  friend bool operator==(const TaskAdded&, const TaskAdded&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.TaskAdded";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &TaskAdded::iteration),
                           Field(2, "task", &TaskAdded::task), Field(3, "home", &TaskAdded::home),
                           Field(4, "share", &TaskAdded::share),
                           Field(5, "starting_round", &TaskAdded::starting_round));
  }
};

struct TaskStarted {
  int64_t iteration = 0;
  int64_t task = 0;
  int64_t starting_round = 0;

  friend bool operator==(const TaskStarted&, const TaskStarted&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.TaskStarted";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &TaskStarted::iteration),
                           Field(2, "task", &TaskStarted::task),
                           Field(3, "starting_round", &TaskStarted::starting_round));
  }
};

struct SeatingAgreed {
  int64_t iteration = 0;
  int64_t first_round = 0;
  std::vector<int64_t> consumers;

  friend bool operator==(const SeatingAgreed&, const SeatingAgreed&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.SeatingAgreed";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &SeatingAgreed::iteration),
                           Field(2, "first_round", &SeatingAgreed::first_round),
                           Field(3, "consumers", &SeatingAgreed::consumers));
  }
};

struct SegmentGranted {
  int64_t iteration = 0;
  int64_t lane = 0;
  int64_t task = 0;
  int64_t seq = 0;
  int64_t segment = 0;
  int64_t from = 0;

  friend bool operator==(const SegmentGranted&, const SegmentGranted&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.SegmentGranted";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "iteration", &SegmentGranted::iteration), Field(2, "lane", &SegmentGranted::lane),
        Field(3, "task", &SegmentGranted::task), Field(4, "seq", &SegmentGranted::seq),
        Field(5, "segment", &SegmentGranted::segment), Field(6, "from", &SegmentGranted::from));
  }
};

struct ElementsAcknowledged {
  int64_t iteration = 0;
  int64_t lane = 0;
  int64_t seq = 0;
  int64_t elements = 0;
  bool done = false;

  friend bool operator==(const ElementsAcknowledged&, const ElementsAcknowledged&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.ElementsAcknowledged";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &ElementsAcknowledged::iteration),
                           Field(2, "lane", &ElementsAcknowledged::lane),
                           Field(3, "seq", &ElementsAcknowledged::seq),
                           Field(4, "elements", &ElementsAcknowledged::elements),
                           Field(5, "done", &ElementsAcknowledged::done));
  }
};

struct LaneTrimmed {
  int64_t iteration = 0;
  int64_t lane = 0;
  int64_t seq = 0;
  int64_t first_element = 0;

  friend bool operator==(const LaneTrimmed&, const LaneTrimmed&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.LaneTrimmed";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &LaneTrimmed::iteration),
                           Field(2, "lane", &LaneTrimmed::lane), Field(3, "seq", &LaneTrimmed::seq),
                           Field(4, "first_element", &LaneTrimmed::first_element));
  }
};

struct SeatingsTrimmed {
  int64_t iteration = 0;
  int64_t first_round = 0;

  friend bool operator==(const SeatingsTrimmed&, const SeatingsTrimmed&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.SeatingsTrimmed";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &SeatingsTrimmed::iteration),
                           Field(2, "first_round", &SeatingsTrimmed::first_round));
  }
};

struct LaneClosed {
  int64_t iteration = 0;
  int64_t lane = 0;

  friend bool operator==(const LaneClosed&, const LaneClosed&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.LaneClosed";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &LaneClosed::iteration),
                           Field(2, "lane", &LaneClosed::lane));
  }
};

struct SegmentCounted {
  int64_t iteration = 0;
  int64_t lane = 0;
  int64_t seq = 0;
  int64_t elements = 0;

  friend bool operator==(const SegmentCounted&, const SegmentCounted&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.SegmentCounted";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "iteration", &SegmentCounted::iteration), Field(2, "lane", &SegmentCounted::lane),
        Field(3, "seq", &SegmentCounted::seq), Field(4, "elements", &SegmentCounted::elements));
  }
};

struct SegmentRest {
  int64_t segment = 0;
  int64_t from = 0;

  friend bool operator==(const SegmentRest&, const SegmentRest&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.SegmentRest";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "segment", &SegmentRest::segment),
                           Field(2, "from", &SegmentRest::from));
  }
};

struct PoolKept {
  int64_t iteration = 0;
  int64_t task = 0;
  int64_t next = 0;
  std::vector<SegmentRest> returned;

  friend bool operator==(const PoolKept&, const PoolKept&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.PoolKept";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &PoolKept::iteration),
                           Field(2, "task", &PoolKept::task), Field(3, "next", &PoolKept::next),
                           Field(4, "returned", &PoolKept::returned));
  }
};

struct LaneKept {
  int64_t iteration = 0;
  int64_t lane = 0;
  int64_t task = 0;
  int64_t next_seq = 0;
  int64_t first_element = 0;
  int64_t base_round = 0;
  int64_t base_element = 0;
  bool closed = false;

  friend bool operator==(const LaneKept&, const LaneKept&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.LaneKept";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "iteration", &LaneKept::iteration), Field(2, "lane", &LaneKept::lane),
        Field(3, "task", &LaneKept::task), Field(4, "next_seq", &LaneKept::next_seq),
        Field(5, "first_element", &LaneKept::first_element),
        Field(6, "base_round", &LaneKept::base_round),
        Field(7, "base_element", &LaneKept::base_element), Field(8, "closed", &LaneKept::closed));
  }
};

struct GrantKept {
  int64_t iteration = 0;
  int64_t lane = 0;
  int64_t task = 0;
  int64_t seq = 0;
  int64_t segment = 0;
  int64_t from = 0;
  // All before this one.
  int64_t acknowledged = 0;
  // Of the segment; absent: not known.
  std::optional<int64_t> elements;
  bool done = false;

  friend bool operator==(const GrantKept&, const GrantKept&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.GrantKept";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "iteration", &GrantKept::iteration), Field(2, "lane", &GrantKept::lane),
        Field(3, "task", &GrantKept::task), Field(4, "seq", &GrantKept::seq),
        Field(5, "segment", &GrantKept::segment), Field(6, "from", &GrantKept::from),
        Field(7, "acknowledged", &GrantKept::acknowledged),
        Field(8, "elements", &GrantKept::elements), Field(9, "done", &GrantKept::done));
  }
};

struct DataTotalsKept {
  int64_t iteration = 0;
  int64_t segments_done = 0;
  int64_t elements_done = 0;
  int64_t segments_dropped = 0;

  friend bool operator==(const DataTotalsKept&, const DataTotalsKept&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.DataTotalsKept";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &DataTotalsKept::iteration),
                           Field(2, "segments_done", &DataTotalsKept::segments_done),
                           Field(3, "elements_done", &DataTotalsKept::elements_done),
                           Field(4, "segments_dropped", &DataTotalsKept::segments_dropped));
  }
};

struct LeaverKept {
  int64_t iteration = 0;
  int64_t consumer = 0;
  Bytes name;
  std::vector<int64_t> seqs;
  std::vector<int64_t> elements;

  friend bool operator==(const LeaverKept&, const LeaverKept&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.LeaverKept";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &LeaverKept::iteration),
                           Field(2, "consumer", &LeaverKept::consumer),
                           Field(3, "name", &LeaverKept::name), Field(4, "seqs", &LeaverKept::seqs),
                           Field(5, "elements", &LeaverKept::elements));
  }
};

struct FinishersKept {
  int64_t iteration = 0;
  std::vector<int32_t> indices;
  ReadingPlace end;

  friend bool operator==(const FinishersKept&, const FinishersKept&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.FinishersKept";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &FinishersKept::iteration),
                           Field(2, "indices", &FinishersKept::indices),
                           Field(3, "end", &FinishersKept::end));
  }
};

// Read again, from an older place.
struct IterationReopened {
  int64_t iteration = 0;

  friend bool operator==(const IterationReopened&, const IterationReopened&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.IterationReopened";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &IterationReopened::iteration));
  }
};

// Rounds: it waits for consumers that are lost.
struct LostAwaited {
  int64_t iteration = 0;

  friend bool operator==(const LostAwaited&, const LostAwaited&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.LostAwaited";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &LostAwaited::iteration));
  }
};

// Rounds: lost, and its place waits for its successor.
struct ConsumerAway {
  int64_t iteration = 0;
  int64_t consumer = 0;
  bool ended = false;

  friend bool operator==(const ConsumerAway&, const ConsumerAway&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.ConsumerAway";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &ConsumerAway::iteration),
                           Field(2, "consumer", &ConsumerAway::consumer),
                           Field(3, "ended", &ConsumerAway::ended));
  }
};

// Rounds: grants that nobody needed any more stand open again, from this round on.
struct HistoryReturned {
  int64_t iteration = 0;
  int64_t round = 0;

  friend bool operator==(const HistoryReturned&, const HistoryReturned&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.HistoryReturned";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &HistoryReturned::iteration),
                           Field(2, "round", &HistoryReturned::round));
  }
};

// Rounds: the grants of a lane that nobody needs at the moment.
struct PastKept {
  int64_t iteration = 0;
  int64_t lane = 0;
  std::vector<int64_t> segments;
  std::vector<int64_t> froms;
  std::vector<int64_t> elements;

  friend bool operator==(const PastKept&, const PastKept&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.PastKept";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "iteration", &PastKept::iteration), Field(2, "lane", &PastKept::lane),
        Field(3, "segments", &PastKept::segments), Field(4, "froms", &PastKept::froms),
        Field(5, "elements", &PastKept::elements));
  }
};

// What became of a thing of the data service. Exactly one is set, besides the age.
struct DataRecord {
  int64_t age_ns = 0;
  std::optional<DataCountersKept> counters_kept;
  std::optional<DatasetRegistered> dataset_registered;
  std::optional<DatasetResolved> dataset_resolved;
  std::optional<DatasetRetired> dataset_retired;
  std::optional<DatasetForgotten> dataset_forgotten;
  std::optional<IterationOpened> iteration_opened;
  std::optional<IterationStarted> iteration_started;
  std::optional<IterationEnded> iteration_ended;
  std::optional<IterationCollected> iteration_collected;
  std::optional<ConsumerJoined> consumer_joined;
  std::optional<ConsumerReplaced> consumer_replaced;
  std::optional<ConsumerFinished> consumer_finished;
  std::optional<ConsumerGone> consumer_gone;
  std::optional<TaskAdded> task_added;
  std::optional<TaskStarted> task_started;
  std::optional<SeatingAgreed> seating_agreed;
  std::optional<SegmentGranted> granted;
  std::optional<ElementsAcknowledged> acknowledged;
  std::optional<LaneTrimmed> lane_trimmed;
  std::optional<SeatingsTrimmed> seatings_trimmed;
  std::optional<LaneClosed> lane_closed;
  std::optional<SegmentCounted> counted;
  std::optional<PoolKept> pool_kept;
  std::optional<LaneKept> lane_kept;
  std::optional<DataTotalsKept> totals_kept;
  std::optional<LeaverKept> leaver_kept;
  std::optional<FinishersKept> finishers_kept;
  std::optional<GrantKept> grant_kept;
  std::optional<IterationReopened> iteration_reopened;
  std::optional<LostAwaited> lost_awaited;
  std::optional<ConsumerAway> consumer_away;
  std::optional<HistoryReturned> history_returned;
  std::optional<PastKept> past_kept;

  friend bool operator==(const DataRecord&, const DataRecord&) = default;
  static constexpr std::string_view kName = "lockstep.store.v1.DataRecord";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "age_ns", &DataRecord::age_ns),
                           Field(2, "counters_kept", &DataRecord::counters_kept),
                           Field(3, "dataset_registered", &DataRecord::dataset_registered),
                           Field(4, "dataset_resolved", &DataRecord::dataset_resolved),
                           Field(5, "dataset_retired", &DataRecord::dataset_retired),
                           Field(6, "dataset_forgotten", &DataRecord::dataset_forgotten),
                           Field(7, "iteration_opened", &DataRecord::iteration_opened),
                           Field(8, "iteration_started", &DataRecord::iteration_started),
                           Field(9, "iteration_ended", &DataRecord::iteration_ended),
                           Field(10, "iteration_collected", &DataRecord::iteration_collected),
                           Field(11, "consumer_joined", &DataRecord::consumer_joined),
                           Field(12, "consumer_replaced", &DataRecord::consumer_replaced),
                           Field(13, "consumer_finished", &DataRecord::consumer_finished),
                           Field(14, "consumer_gone", &DataRecord::consumer_gone),
                           Field(15, "task_added", &DataRecord::task_added),
                           Field(16, "task_started", &DataRecord::task_started),
                           Field(17, "seating_agreed", &DataRecord::seating_agreed),
                           Field(18, "granted", &DataRecord::granted),
                           Field(19, "acknowledged", &DataRecord::acknowledged),
                           Field(20, "lane_trimmed", &DataRecord::lane_trimmed),
                           Field(21, "seatings_trimmed", &DataRecord::seatings_trimmed),
                           Field(22, "lane_closed", &DataRecord::lane_closed),
                           Field(23, "counted", &DataRecord::counted),
                           Field(24, "pool_kept", &DataRecord::pool_kept),
                           Field(25, "lane_kept", &DataRecord::lane_kept),
                           Field(26, "totals_kept", &DataRecord::totals_kept),
                           Field(27, "leaver_kept", &DataRecord::leaver_kept),
                           Field(28, "finishers_kept", &DataRecord::finishers_kept),
                           Field(29, "grant_kept", &DataRecord::grant_kept),
                           Field(30, "iteration_reopened", &DataRecord::iteration_reopened),
                           Field(31, "lost_awaited", &DataRecord::lost_awaited),
                           Field(32, "consumer_away", &DataRecord::consumer_away),
                           Field(33, "history_returned", &DataRecord::history_returned),
                           Field(34, "past_kept", &DataRecord::past_kept));
  }
};

}  // namespace lockstep::wire::store

// The data service: what consumers, workers and tools say to the dispatcher, which is a part of
// every server. Contract: proto/lockstep/v1/data.proto; what it means: lockstep/dispatch/events.h
// and effects.h. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {

// --- Datasets ---

// Makes a dataset known. The same definition has always the same id.
struct RegisterDataset {
  // Chosen by the client; empty: the identity is its name.
  std::string name;
  // An encoded DataDefinition: it is kept as it is.
  Bytes definition;

  friend bool operator==(const RegisterDataset&, const RegisterDataset&) = default;
  static constexpr std::string_view kName = "lockstep.v1.RegisterDataset";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "name", &RegisterDataset::name, kIdBytes),
                           Field(2, "definition", &RegisterDataset::definition, kValueBytes));
  }
};

struct RegisterDatasetReply {
  int64_t dataset = 0;
  std::string name;
  // 32 hexadecimal digits, the same for definitions that mean the same.
  std::string identity;
  // Of its elements, as far as it is known without its files.
  std::string element_spec;

  friend bool operator==(const RegisterDatasetReply&, const RegisterDatasetReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.RegisterDatasetReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "dataset", &RegisterDatasetReply::dataset),
                           Field(2, "name", &RegisterDatasetReply::name),
                           Field(3, "identity", &RegisterDatasetReply::identity),
                           Field(4, "element_spec", &RegisterDatasetReply::element_spec));
  }
};

// What is this dataset? By id, or (0) by name.
struct GetDataset {
  int64_t dataset = 0;
  std::string name;

  friend bool operator==(const GetDataset&, const GetDataset&) = default;
  static constexpr std::string_view kName = "lockstep.v1.GetDataset";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "dataset", &GetDataset::dataset, kCheckedNumber),
                           Field(2, "name", &GetDataset::name, kIdBytes));
  }
};

struct GetDatasetReply {
  int64_t dataset = 0;
  std::string name;
  std::string identity;
  // An encoded DataDefinition.
  Bytes definition;
  std::string element_spec;
  bool needs_manifest = false;
  // There is a manifest, or none is needed.
  bool resolved = false;
  // An encoded DataManifest.
  Bytes manifest;

  friend bool operator==(const GetDatasetReply&, const GetDatasetReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.GetDatasetReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "dataset", &GetDatasetReply::dataset),
                           Field(2, "name", &GetDatasetReply::name),
                           Field(3, "identity", &GetDatasetReply::identity),
                           Field(4, "definition", &GetDatasetReply::definition),
                           Field(5, "element_spec", &GetDatasetReply::element_spec),
                           Field(6, "needs_manifest", &GetDatasetReply::needs_manifest),
                           Field(7, "resolved", &GetDatasetReply::resolved),
                           Field(8, "manifest", &GetDatasetReply::manifest));
  }
};

// --- Iterations and consumers ---

// How the elements go to the consumers.
enum class ReadingMode : int32_t {
  // Each element to whoever asks first.
  kFirstCome = 0,
  // In the order of a local run: element n to consumer n % consumers.
  kExact = 1,
  // In each step all consumers read from the same worker.
  kRounds = 2,
};

constexpr std::array<EnumName<ReadingMode>, 3> EnumNames(ReadingMode) {
  using enum ReadingMode;
  return {{{kFirstCome, "first_come"}, {kExact, "exact"}, {kRounds, "rounds"}}};
}

// How the segments go to the workers.
enum class DataSharding : int32_t {
  // Each segment to whoever is free.
  kDynamic = 0,
  // Each worker makes a whole pass.
  kOff = 1,
  // Segment k belongs to share k % shares.
  kStaticData = 2,
  // By the file that it begins in.
  kStaticFile = 3,
  // Refused, with what to use instead.
  kHint = 4,
};

constexpr std::array<EnumName<DataSharding>, 5> EnumNames(DataSharding) {
  using enum DataSharding;
  return {{{kDynamic, "dynamic"},
           {kOff, "off"},
           {kStaticData, "static_data"},
           {kStaticFile, "static_file"},
           {kHint, "hint"}}};
}

// What becomes of segments that were given to a consumer whose lease ended; first come only.
enum class DataVisitation : int32_t {
  kExactlyOnce = 0,
  kAtLeastOnce = 1,
  kAtMostOnce = 2,
};

constexpr std::array<EnumName<DataVisitation>, 3> EnumNames(DataVisitation) {
  using enum DataVisitation;
  return {{{kExactlyOnce, "exactly_once"},
           {kAtLeastOnce, "at_least_once"},
           {kAtMostOnce, "at_most_once"}}};
}

// Rounds: whether the others go on without a consumer that is lost.
enum class DataOnLost : int32_t {
  // They wait when consumers keep cursors or are members of a job.
  kAuto = 0,
  // They wait for its successor, for which all its elements are kept.
  kWait = 1,
  // They go on, and what it alone would have read is missing.
  kGoOn = 2,
};

constexpr std::array<EnumName<DataOnLost>, 3> EnumNames(DataOnLost) {
  using enum DataOnLost;
  return {{{kAuto, "auto"}, {kWait, "wait"}, {kGoOn, "go_on"}}};
}

// What an iteration is. Compared in full when one of the same name and repetition is opened again.
struct IterationSpec {
  // Empty: a name is made for it.
  std::string name;
  int64_t repetition = 0;
  int64_t dataset = 0;
  ReadingMode mode = ReadingMode{};
  DataSharding sharding = DataSharding{};
  DataVisitation visitation = DataVisitation{};
  // Exact and rounds: how many read; rounds: when it begins.
  int32_t consumers = 0;
  // Static sharding: how many; and the workers by share, empty: any worker takes any.
  int32_t shares = 0;
  std::vector<std::string> worker_addresses;
  // Where it starts, when it goes on where another one stopped.
  Bytes cursor;
  DataOnLost on_lost = DataOnLost{};

  friend bool operator==(const IterationSpec&, const IterationSpec&) = default;
  static constexpr std::string_view kName = "lockstep.v1.IterationSpec";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "name", &IterationSpec::name, kIdBytes),
        Field(2, "repetition", &IterationSpec::repetition, kAnyNumber),
        Field(3, "dataset", &IterationSpec::dataset, kCheckedNumber),
        Field(4, "mode", &IterationSpec::mode), Field(5, "sharding", &IterationSpec::sharding),
        Field(6, "visitation", &IterationSpec::visitation),
        Field(7, "consumers", &IterationSpec::consumers, kCheckedNumber),
        Field(8, "shares", &IterationSpec::shares, kCheckedNumber),
        Field(9, "worker_addresses", &IterationSpec::worker_addresses, kAddressBytes, kMany),
        Field(10, "cursor", &IterationSpec::cursor, kValueBytes),
        Field(11, "on_lost", &IterationSpec::on_lost));
  }
};

// What a consumer of a first-come iteration has safely of a grant.
struct LaneAck {
  int64_t lane = 0;
  int64_t seq = 0;
  // All of the segment before this one.
  int64_t elements = 0;
  // The segment has no more.
  bool done = false;

  friend bool operator==(const LaneAck&, const LaneAck&) = default;
  static constexpr std::string_view kName = "lockstep.v1.LaneAck";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "lane", &LaneAck::lane, kCheckedNumber),
                           Field(2, "seq", &LaneAck::seq, kCheckedNumber),
                           Field(3, "elements", &LaneAck::elements, kNatural),
                           Field(4, "done", &LaneAck::done));
  }
};

// How far a reading is. Exact: elements of the dataset before it, of all consumers; rounds: the
// round, and how many turns of it are over.
struct ReadingPlace {
  int64_t elements = 0;
  int64_t round = 0;
  int64_t turns = 0;

  friend bool operator==(const ReadingPlace&, const ReadingPlace&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ReadingPlace";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "elements", &ReadingPlace::elements, kNatural),
                           Field(2, "round", &ReadingPlace::round, kCheckedNumber),
                           Field(3, "turns", &ReadingPlace::turns, kNatural));
  }
};

// Opens the iteration when there is none, and becomes one of its consumers.
struct OpenIteration {
  IterationSpec spec;
  // Its name within the iteration: the same name is the same consumer.
  std::string consumer;
  // Random, of the process that asks: another one replaces the former. Never 0.
  uint64_t life = 0;
  // Exact and rounds: which of them it is; absent: any that is free.
  std::optional<int32_t> index;
  // More than the dispatcher may have heard of.
  std::vector<LaneAck> have;
  // Exact and rounds: where it goes on within this iteration.
  std::optional<ReadingPlace> from;
  std::string host;
  int64_t pid = 0;
  // Where `pid` means something: the machine's boot and the namespace; and when the process
  // started.
  std::string machine;
  int64_t started = 0;
  // It is a member of a job: whoever takes its place there takes it here.
  bool member = false;

  friend bool operator==(const OpenIteration&, const OpenIteration&) = default;
  static constexpr std::string_view kName = "lockstep.v1.OpenIteration";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "spec", &OpenIteration::spec),
                           Field(2, "consumer", &OpenIteration::consumer, kIdBytes),
                           Field(3, "life", &OpenIteration::life, kAnyNumber),
                           Field(4, "index", &OpenIteration::index, kCheckedNumber),
                           Field(5, "have", &OpenIteration::have, {}, kMany),
                           Field(6, "from", &OpenIteration::from),
                           Field(7, "host", &OpenIteration::host, kIdBytes),
                           Field(8, "pid", &OpenIteration::pid, kPid),
                           Field(9, "machine", &OpenIteration::machine, kIdBytes),
                           Field(10, "started", &OpenIteration::started, kCheckedNumber),
                           Field(11, "member", &OpenIteration::member));
  }
};

struct OpenIterationReply {
  int64_t iteration = 0;
  int64_t consumer = 0;
  // Of the iteration, as it was made when none was given.
  std::string name;
  // First come: what it had not acknowledged was given to others, and only `counted` counts.
  bool lease_had_ended = false;
  std::vector<LaneAck> counted;
  // Exact and rounds: which of the consumers it is.
  std::optional<int32_t> index;

  friend bool operator==(const OpenIterationReply&, const OpenIterationReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.OpenIterationReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &OpenIterationReply::iteration),
                           Field(2, "consumer", &OpenIterationReply::consumer),
                           Field(3, "name", &OpenIterationReply::name),
                           Field(4, "lease_had_ended", &OpenIterationReply::lease_had_ended),
                           Field(5, "counted", &OpenIterationReply::counted),
                           Field(6, "index", &OpenIterationReply::index));
  }
};

// Exact and rounds: grants of the lane before `seq` are needed no more, and up to `needs` are
// needed for what is handed out next.
struct LaneProgress {
  int64_t lane = 0;
  int64_t seq = 0;
  int64_t needs = 0;

  friend bool operator==(const LaneProgress&, const LaneProgress&) = default;
  static constexpr std::string_view kName = "lockstep.v1.LaneProgress";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "lane", &LaneProgress::lane, kCheckedNumber),
                           Field(2, "seq", &LaneProgress::seq, kCheckedNumber),
                           Field(3, "needs", &LaneProgress::needs, kCheckedNumber));
  }
};

// How many elements the segment of a grant turned out to have.
struct SegmentCount {
  int64_t lane = 0;
  int64_t seq = 0;
  int64_t elements = 0;

  friend bool operator==(const SegmentCount&, const SegmentCount&) = default;
  static constexpr std::string_view kName = "lockstep.v1.SegmentCount";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "lane", &SegmentCount::lane, kCheckedNumber),
                           Field(2, "seq", &SegmentCount::seq, kCheckedNumber),
                           Field(3, "elements", &SegmentCount::elements, kNatural));
  }
};

// An error that travels within a message.
struct DataError {
  // As google.rpc.Code; 0: none.
  int32_t code = 0;
  std::string reason;
  Bytes message;

  friend bool operator==(const DataError&, const DataError&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DataError";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "code", &DataError::code, kCheckedNumber),
                           Field(2, "reason", &DataError::reason, kIdBytes),
                           Field(3, "message", &DataError::message, kSentenceBytes));
  }
};

// The worker cannot make the segment, wherever it is.
struct SegmentFailure {
  int64_t lane = 0;
  int64_t seq = 0;
  int64_t segment = 0;
  uint64_t worker = 0;
  DataError error;

  friend bool operator==(const SegmentFailure&, const SegmentFailure&) = default;
  static constexpr std::string_view kName = "lockstep.v1.SegmentFailure";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "lane", &SegmentFailure::lane, kCheckedNumber),
                           Field(2, "seq", &SegmentFailure::seq, kCheckedNumber),
                           Field(3, "segment", &SegmentFailure::segment, kCheckedNumber),
                           Field(4, "worker", &SegmentFailure::worker, kCheckedNumber),
                           Field(5, "error", &SegmentFailure::error));
  }
};

// A sign of life of a consumer, and what it has to report; parked until its assignment is another
// than `after`, or for `wait_us`.
struct ConsumerPoll {
  int64_t iteration = 0;
  int64_t consumer = 0;
  uint64_t life = 0;
  // Of the poll within the life, from 1 up: reports of an older one are stale.
  int64_t number = 0;
  // Of the answer that `after` is from. 0: answer at once.
  uint64_t service = 0;
  int64_t after = 0;
  int64_t wait_us = 0;
  // First come.
  std::vector<LaneAck> acks;
  // Exact and rounds.
  std::vector<LaneProgress> progress;
  std::vector<SegmentCount> counts;
  std::vector<uint64_t> unreachable;
  std::vector<SegmentFailure> failures;
  // Rounds: the one it is in, and which it begins only when it is told to.
  int64_t round = 0;
  std::optional<int64_t> blocked_round;
  // Exact and rounds: it has read to the end.
  bool finished = false;
  // For people: whom it waits for.
  std::string waits_for;
  // Between two elements that the program asked for; 0: not known.
  int64_t element_time_us = 0;
  // Where the end is, when it is finished.
  ReadingPlace end;
  // First come, acknowledged by hand: the program has all elements of the grants before this one...
  int64_t handed_before = 0;
  // ...holds so many that it has not acknowledged, of so many bytes...
  int64_t unacknowledged = 0;
  uint64_t unacknowledged_bytes = 0;
  // ...and waits, although it has all that it was given.
  bool has_all = false;
  // Exact and rounds: the program keeps cursors.
  bool keeps_cursors = false;

  friend bool operator==(const ConsumerPoll&, const ConsumerPoll&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ConsumerPoll";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "iteration", &ConsumerPoll::iteration, kCheckedNumber),
        Field(2, "consumer", &ConsumerPoll::consumer, kCheckedNumber),
        Field(3, "life", &ConsumerPoll::life, kAnyNumber),
        Field(4, "number", &ConsumerPoll::number, kCheckedNumber),
        Field(5, "service", &ConsumerPoll::service, kCheckedNumber),
        Field(6, "after", &ConsumerPoll::after, kCheckedNumber),
        Field(7, "wait_us", &ConsumerPoll::wait_us, kCheckedNumber),
        Field(8, "acks", &ConsumerPoll::acks, {}, kMany),
        Field(9, "progress", &ConsumerPoll::progress, {}, kMany),
        Field(10, "counts", &ConsumerPoll::counts, {}, kMany),
        Field(11, "unreachable", &ConsumerPoll::unreachable, kCheckedNumber, kMany),
        Field(12, "failures", &ConsumerPoll::failures, {}, kMany),
        Field(13, "round", &ConsumerPoll::round, kCheckedNumber),
        Field(14, "blocked_round", &ConsumerPoll::blocked_round, kCheckedNumber),
        Field(15, "finished", &ConsumerPoll::finished),
        Field(16, "waits_for", &ConsumerPoll::waits_for, kSentenceBytes),
        Field(17, "element_time_us", &ConsumerPoll::element_time_us, kCheckedNumber),
        Field(18, "end", &ConsumerPoll::end),
        Field(19, "handed_before", &ConsumerPoll::handed_before, kCheckedNumber),
        Field(20, "unacknowledged", &ConsumerPoll::unacknowledged, kNatural),
        Field(21, "unacknowledged_bytes", &ConsumerPoll::unacknowledged_bytes, kNatural),
        Field(22, "has_all", &ConsumerPoll::has_all),
        Field(23, "keeps_cursors", &ConsumerPoll::keeps_cursors));
  }
};

// One segment of a lane: who is to be asked for it, which may change at any time.
struct SegmentGrant {
  // From 0 up in the lane.
  int64_t seq = 0;
  int64_t segment = 0;
  // Elements before it belong to somebody else, or are acknowledged.
  int64_t from = 0;
  // 0: there is none at the moment.
  uint64_t worker = 0;
  // Of the segment; absent: not known.
  std::optional<int64_t> elements;

  friend bool operator==(const SegmentGrant&, const SegmentGrant&) = default;
  static constexpr std::string_view kName = "lockstep.v1.SegmentGrant";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "seq", &SegmentGrant::seq), Field(2, "segment", &SegmentGrant::segment),
        Field(3, "from", &SegmentGrant::from), Field(4, "worker", &SegmentGrant::worker),
        Field(5, "elements", &SegmentGrant::elements));
  }
};

// A run of segments that is read as one stream of elements.
struct DataLane {
  int64_t lane = 0;
  int64_t task = 0;
  // Rounds: the first in which it is read.
  int64_t starting_round = 0;
  std::vector<SegmentGrant> grants;
  // No grant comes behind these.
  bool closed = false;
  // Rounds: in round `base_round` its turn begins at element `base_element` of the lane.
  int64_t base_round = 0;
  int64_t base_element = 0;
  // So many elements of the lane stand before its first grant here; absent: whoever reads knows.
  std::optional<int64_t> first_element;
  // First come: all grants before this one are acknowledged; absent: those before the first here.
  std::optional<int64_t> done_before;

  friend bool operator==(const DataLane&, const DataLane&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DataLane";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "lane", &DataLane::lane), Field(2, "task", &DataLane::task),
                           Field(3, "starting_round", &DataLane::starting_round),
                           Field(4, "grants", &DataLane::grants),
                           Field(5, "closed", &DataLane::closed),
                           Field(6, "base_round", &DataLane::base_round),
                           Field(7, "base_element", &DataLane::base_element),
                           Field(8, "first_element", &DataLane::first_element),
                           Field(9, "done_before", &DataLane::done_before));
  }
};

// Rounds: from `first_round` on these consumers read.
struct RoundSeating {
  int64_t first_round = 0;
  int32_t consumers = 0;
  // Of the one who is told; absent: it is not among them.
  std::optional<int32_t> index;

  friend bool operator==(const RoundSeating&, const RoundSeating&) = default;
  static constexpr std::string_view kName = "lockstep.v1.RoundSeating";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "first_round", &RoundSeating::first_round),
                           Field(2, "consumers", &RoundSeating::consumers),
                           Field(3, "index", &RoundSeating::index));
  }
};

struct WorkerAddress {
  uint64_t worker = 0;
  std::string address;
  // An encoded Card; empty: its memory cannot be shared.
  Bytes host_card;

  friend bool operator==(const WorkerAddress&, const WorkerAddress&) = default;
  static constexpr std::string_view kName = "lockstep.v1.WorkerAddress";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "worker", &WorkerAddress::worker),
                           Field(2, "address", &WorkerAddress::address),
                           Field(3, "host_card", &WorkerAddress::host_card));
  }
};

enum class IterationPhase : int32_t {
  // A worker lists the files, or there is no worker.
  kResolving = 0,
  kReading = 1,
  kFinished = 2,
  kFailed = 3,
  // Nobody has read it for long, and it was forgotten.
  kCollected = 4,
};

constexpr std::array<EnumName<IterationPhase>, 5> EnumNames(IterationPhase) {
  using enum IterationPhase;
  return {{{kResolving, "resolving"},
           {kReading, "reading"},
           {kFinished, "finished"},
           {kFailed, "failed"},
           {kCollected, "collected"}}};
}

struct ReturnedSegment {
  int64_t segment = 0;
  int64_t from = 0;

  friend bool operator==(const ReturnedSegment&, const ReturnedSegment&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ReturnedSegment";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "segment", &ReturnedSegment::segment),
                           Field(2, "from", &ReturnedSegment::from));
  }
};

// All that a consumer has to know, each time in full.
struct ConsumerPollReply {
  // Which life of the dispatcher; versions of another one say nothing.
  uint64_t service = 0;
  int64_t version = 0;
  IterationPhase phase = IterationPhase{};
  DataError error;
  std::vector<DataLane> lanes;
  // Who is named in the lanes.
  std::vector<WorkerAddress> workers;
  // Rounds: begin none from this one on.
  std::optional<int64_t> block_round;
  // By first_round.
  std::vector<RoundSeating> seatings;
  // No segment from this one on has been granted; some before it are to be granted again.
  int64_t next_segment = 0;
  std::vector<ReturnedSegment> returned;
  // While the files are listed: by whom, and since when. For people.
  std::string waits_for;
  // First come: nobody but this consumer holds anything that is not acknowledged, and all was
  // given.
  bool rest_is_own = false;
  // First come: why nothing more is given before something is acknowledged; empty: more is given.
  std::string ack_needed;

  friend bool operator==(const ConsumerPollReply&, const ConsumerPollReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ConsumerPollReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "service", &ConsumerPollReply::service),
                           Field(2, "version", &ConsumerPollReply::version),
                           Field(3, "phase", &ConsumerPollReply::phase),
                           Field(4, "error", &ConsumerPollReply::error),
                           Field(5, "lanes", &ConsumerPollReply::lanes),
                           Field(6, "workers", &ConsumerPollReply::workers),
                           Field(7, "block_round", &ConsumerPollReply::block_round),
                           Field(8, "seatings", &ConsumerPollReply::seatings),
                           Field(9, "next_segment", &ConsumerPollReply::next_segment),
                           Field(10, "returned", &ConsumerPollReply::returned),
                           Field(11, "waits_for", &ConsumerPollReply::waits_for),
                           Field(12, "rest_is_own", &ConsumerPollReply::rest_is_own),
                           Field(13, "ack_needed", &ConsumerPollReply::ack_needed));
  }
};

// A consumer has read enough. Succeeds also when there is none (any more).
struct CloseConsumer {
  int64_t iteration = 0;
  int64_t consumer = 0;
  uint64_t life = 0;
  std::vector<LaneAck> acks;
  int64_t round = 0;
  bool finished = false;
  ReadingPlace end;

  friend bool operator==(const CloseConsumer&, const CloseConsumer&) = default;
  static constexpr std::string_view kName = "lockstep.v1.CloseConsumer";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "iteration", &CloseConsumer::iteration, kCheckedNumber),
                           Field(2, "consumer", &CloseConsumer::consumer, kCheckedNumber),
                           Field(3, "life", &CloseConsumer::life, kAnyNumber),
                           Field(4, "acks", &CloseConsumer::acks, {}, kMany),
                           Field(5, "round", &CloseConsumer::round, kCheckedNumber),
                           Field(6, "finished", &CloseConsumer::finished),
                           Field(7, "end", &CloseConsumer::end));
  }
};

struct CloseConsumerReply {
  friend bool operator==(const CloseConsumerReply&, const CloseConsumerReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.CloseConsumerReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() { return std::make_tuple(); }
};

// --- Workers ---

// What a worker found when it listed a dataset's files.
struct ResolveReport {
  int64_t dataset = 0;
  // An encoded DataManifest.
  Bytes manifest;
  // For people.
  int64_t files = 0;
  // There is no manifest.
  DataError error;

  friend bool operator==(const ResolveReport&, const ResolveReport&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ResolveReport";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "dataset", &ResolveReport::dataset, kCheckedNumber),
                           Field(2, "manifest", &ResolveReport::manifest, kValueBytes),
                           Field(3, "files", &ResolveReport::files, kNatural),
                           Field(4, "error", &ResolveReport::error));
  }
};

// How long the worker takes for an element of a dataset.
struct ProcessingTime {
  int64_t dataset = 0;
  int64_t element_time_ns = 0;

  friend bool operator==(const ProcessingTime&, const ProcessingTime&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ProcessingTime";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "dataset", &ProcessingTime::dataset, kCheckedNumber),
                           Field(2, "element_time_ns", &ProcessingTime::element_time_ns, kNatural));
  }
};

// Registers the worker, and is its sign of life; parked until there is other work than `after`, or
// for `wait_us`.
struct WorkerPoll {
  // One life of the process, a random number. Never 0.
  uint64_t worker = 0;
  // Of what workers, consumers and dispatcher agree on; refused unless it is the same.
  int32_t version = 0;
  // Where consumers reach it.
  std::string address;
  Bytes host_card;
  std::vector<std::string> tags;
  std::string host;
  int64_t pid = 0;
  uint64_t service = 0;
  int64_t after = 0;
  int64_t wait_us = 0;
  std::vector<ResolveReport> resolved;
  std::vector<ProcessingTime> times;
  // It wants no work any more: all of it goes to others.
  bool leaving = false;

  friend bool operator==(const WorkerPoll&, const WorkerPoll&) = default;
  static constexpr std::string_view kName = "lockstep.v1.WorkerPoll";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "worker", &WorkerPoll::worker, kAnyNumber),
                           Field(2, "version", &WorkerPoll::version, kCheckedNumber),
                           Field(3, "address", &WorkerPoll::address, kAddressBytes),
                           Field(4, "host_card", &WorkerPoll::host_card, kHostCardBytes),
                           Field(5, "tags", &WorkerPoll::tags, kNameBytes, kFew),
                           Field(6, "host", &WorkerPoll::host, kNameBytes),
                           Field(7, "pid", &WorkerPoll::pid, kPid),
                           Field(8, "service", &WorkerPoll::service, kCheckedNumber),
                           Field(9, "after", &WorkerPoll::after, kCheckedNumber),
                           Field(10, "wait_us", &WorkerPoll::wait_us, kCheckedNumber),
                           Field(11, "resolved", &WorkerPoll::resolved, {}, kMany),
                           Field(12, "times", &WorkerPoll::times, {}, kMany),
                           Field(13, "leaving", &WorkerPoll::leaving));
  }
};

// A worker's share of an iteration.
struct WorkerTask {
  int64_t task = 0;
  int64_t iteration = 0;
  int64_t dataset = 0;
  // Rounds: absent while it is pending.
  std::optional<int64_t> starting_round;

  friend bool operator==(const WorkerTask&, const WorkerTask&) = default;
  static constexpr std::string_view kName = "lockstep.v1.WorkerTask";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "task", &WorkerTask::task),
                           Field(2, "iteration", &WorkerTask::iteration),
                           Field(3, "dataset", &WorkerTask::dataset),
                           Field(4, "starting_round", &WorkerTask::starting_round));
  }
};

struct WorkerPollReply {
  uint64_t service = 0;
  int64_t version = 0;
  // All of them.
  std::vector<WorkerTask> tasks;
  // List the files of these datasets, and report.
  std::vector<int64_t> resolve;
  // The next poll is due so long after this answer at the latest.
  int64_t poll_within_us = 0;

  friend bool operator==(const WorkerPollReply&, const WorkerPollReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.WorkerPollReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "service", &WorkerPollReply::service),
                           Field(2, "version", &WorkerPollReply::version),
                           Field(3, "tasks", &WorkerPollReply::tasks),
                           Field(4, "resolve", &WorkerPollReply::resolve),
                           Field(5, "poll_within_us", &WorkerPollReply::poll_within_us));
  }
};

}  // namespace lockstep::wire::native

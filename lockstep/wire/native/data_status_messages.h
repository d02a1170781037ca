// What the data service looks like at a moment, for people and tools. Contract:
// proto/lockstep/v1/data.proto. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lockstep/wire/native/data_service_messages.h"
#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {

// --- What the data service looks like ---

// For people and tools.
struct DataStatus {
  friend bool operator==(const DataStatus&, const DataStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DataStatus";
  static constexpr auto Fields() { return std::make_tuple(); }
};

struct DatasetStatus {
  int64_t dataset = 0;
  std::string name;
  std::string identity;
  bool needs_manifest = false;
  // There is a manifest, or none is needed.
  bool resolved = false;
  uint64_t definition_bytes = 0;
  uint64_t manifest_bytes = 0;
  uint64_t iterations = 0;

  friend bool operator==(const DatasetStatus&, const DatasetStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DatasetStatus";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "dataset", &DatasetStatus::dataset),
                           Field(2, "name", &DatasetStatus::name),
                           Field(3, "identity", &DatasetStatus::identity),
                           Field(4, "needs_manifest", &DatasetStatus::needs_manifest),
                           Field(5, "resolved", &DatasetStatus::resolved),
                           Field(6, "definition_bytes", &DatasetStatus::definition_bytes),
                           Field(7, "manifest_bytes", &DatasetStatus::manifest_bytes),
                           Field(8, "iterations", &DatasetStatus::iterations));
  }
};

struct WorkerStatus {
  uint64_t worker = 0;
  std::string address;
  std::string host;
  int64_t pid = 0;
  std::vector<std::string> tags;
  uint64_t tasks = 0;
  // First come: grants that are not acknowledged.
  uint64_t grants = 0;
  // Since its last poll.
  int64_t silent_us = 0;
  // For an element; 0: not known.
  int64_t element_time_ns = 0;

  friend bool operator==(const WorkerStatus&, const WorkerStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.WorkerStatus";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "worker", &WorkerStatus::worker), Field(2, "address", &WorkerStatus::address),
        Field(3, "host", &WorkerStatus::host), Field(4, "pid", &WorkerStatus::pid),
        Field(5, "tags", &WorkerStatus::tags), Field(6, "tasks", &WorkerStatus::tasks),
        Field(7, "grants", &WorkerStatus::grants), Field(8, "silent_us", &WorkerStatus::silent_us),
        Field(9, "element_time_ns", &WorkerStatus::element_time_ns));
  }
};

struct ConsumerStatus {
  int64_t consumer = 0;
  std::string name;
  std::optional<int32_t> index;
  std::string host;
  int64_t pid = 0;
  std::optional<int64_t> round;
  std::optional<int64_t> blocked_round;
  // First come: acknowledged.
  int64_t elements = 0;
  uint64_t grants = 0;
  bool finished = false;
  int64_t silent_us = 0;
  // Whom it waits for; empty: nobody.
  std::string waits_for;
  int64_t element_time_us = 0;
  // First come: what the program has and has not acknowledged.
  int64_t unacknowledged = 0;
  uint64_t unacknowledged_bytes = 0;
  // Rounds: it is lost, and its place waits for its successor.
  bool away = false;

  friend bool operator==(const ConsumerStatus&, const ConsumerStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ConsumerStatus";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "consumer", &ConsumerStatus::consumer), Field(2, "name", &ConsumerStatus::name),
        Field(3, "index", &ConsumerStatus::index), Field(4, "host", &ConsumerStatus::host),
        Field(5, "pid", &ConsumerStatus::pid), Field(6, "round", &ConsumerStatus::round),
        Field(7, "blocked_round", &ConsumerStatus::blocked_round),
        Field(8, "elements", &ConsumerStatus::elements),
        Field(9, "grants", &ConsumerStatus::grants),
        Field(10, "finished", &ConsumerStatus::finished),
        Field(11, "silent_us", &ConsumerStatus::silent_us),
        Field(12, "waits_for", &ConsumerStatus::waits_for),
        Field(13, "element_time_us", &ConsumerStatus::element_time_us),
        Field(14, "unacknowledged", &ConsumerStatus::unacknowledged),
        Field(15, "unacknowledged_bytes", &ConsumerStatus::unacknowledged_bytes),
        Field(16, "away", &ConsumerStatus::away));
  }
};

struct TaskStatus {
  int64_t task = 0;
  // 0: none has it.
  uint64_t worker = 0;
  // The worker does it for one that is gone.
  bool stand_in = false;
  // Rounds; absent while it is pending.
  std::optional<int64_t> starting_round;
  std::optional<int32_t> share;
  bool finished = false;

  friend bool operator==(const TaskStatus&, const TaskStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.TaskStatus";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "task", &TaskStatus::task), Field(2, "worker", &TaskStatus::worker),
        Field(3, "stand_in", &TaskStatus::stand_in),
        Field(4, "starting_round", &TaskStatus::starting_round),
        Field(5, "share", &TaskStatus::share), Field(6, "finished", &TaskStatus::finished));
  }
};

struct IterationStatus {
  int64_t iteration = 0;
  IterationSpec spec;
  IterationPhase phase = IterationPhase{};
  std::optional<DataError> error;
  // Absent: the dataset has no end.
  std::optional<int64_t> segments;
  int64_t granted = 0;
  int64_t done = 0;
  // At most once: given up.
  int64_t dropped = 0;
  // Acknowledged.
  int64_t elements = 0;
  std::optional<int64_t> round;
  // Rounds: what is to be agreed on, in a sentence.
  std::string agreeing;
  // Who waits for whom, in a sentence.
  std::string waits_for;
  // How many workers would keep up; 0: not known.
  int64_t workers_wanted = 0;
  std::vector<ConsumerStatus> consumers;
  std::vector<TaskStatus> tasks;

  friend bool operator==(const IterationStatus&, const IterationStatus&) = default;
  static constexpr std::string_view kName = "lockstep.v1.IterationStatus";
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "iteration", &IterationStatus::iteration),
        Field(2, "spec", &IterationStatus::spec), Field(3, "phase", &IterationStatus::phase),
        Field(4, "error", &IterationStatus::error),
        Field(5, "segments", &IterationStatus::segments),
        Field(6, "granted", &IterationStatus::granted), Field(7, "done", &IterationStatus::done),
        Field(8, "dropped", &IterationStatus::dropped),
        Field(9, "elements", &IterationStatus::elements),
        Field(10, "round", &IterationStatus::round),
        Field(11, "agreeing", &IterationStatus::agreeing),
        Field(12, "waits_for", &IterationStatus::waits_for),
        Field(13, "workers_wanted", &IterationStatus::workers_wanted),
        Field(14, "consumers", &IterationStatus::consumers),
        Field(15, "tasks", &IterationStatus::tasks));
  }
};

struct DataStatusReply {
  std::vector<DatasetStatus> datasets;
  std::vector<IterationStatus> iterations;
  std::vector<WorkerStatus> workers;
  int64_t workers_wanted = 0;
  // Requests that wait for their answers.
  uint64_t parked = 0;

  friend bool operator==(const DataStatusReply&, const DataStatusReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.DataStatusReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "datasets", &DataStatusReply::datasets),
                           Field(2, "iterations", &DataStatusReply::iterations),
                           Field(3, "workers", &DataStatusReply::workers),
                           Field(4, "workers_wanted", &DataStatusReply::workers_wanted),
                           Field(5, "parked", &DataStatusReply::parked));
  }
};

}  // namespace lockstep::wire::native

// Records of coordinators, and what a server keeps beside them, to entries of its journal and back.
// Pure.
//
// Every entry says when it was written by the wall clock: the monotonic one, by which machines
// count, begins anew with the host. What is read back is put as long before `now` as the wall clock
// says that it was; never later than now, should that clock have been set back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/records.h"
#include "lockstep/data/dispatch/records.h"
#include "lockstep/stock/tcpstore/records.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::wire::store {

// One moment, by both clocks.
struct Moment {
  Time now;
  absl::Time wall;
};

// From which a job's coordinator and its listener are made again.
struct Job {
  std::string name;
  int32_t size = 1;
  std::vector<coord::RoleOptions> roles;
  bool recoverable = false;
  bool temporary = false;
  std::string host;  // where its stock clients call
  uint16_t port = 0;
  uint64_t incarnation_seed = 0;
};

// Each appends one entry to `out`: of as many records, from the first on, as `entry_bytes_soft_max`
// allows, and of one at least if there is one. Returns how many; the others are for the next entry.
size_t EncodeRecords(const std::string& job, absl::Time wall,
                     absl::Span<const coord::Record> records, std::string& out);
// Of a snapshot: each record has a time of its own.
size_t EncodeRecords(const std::string& job, const Moment& now,
                     absl::Span<const coord::TimedRecord> records, std::string& out);
// Adds all of them to an entry; who calls bounds their number. Texts are cut
// (`error_text_bytes_max`).
void AppendEvents(absl::Span<const native::JobEvent> events, std::string& out);
void EncodeJob(const Job& job, absl::Time wall, std::string& out);
void EncodeJobDeleted(const std::string& name, absl::Time wall, std::string& out);

// A record of the data service, read back.
struct ReadData {
  Time at;
  dispatch::Record record;
  // Why it cannot be used, such as a value that this program does not know; what it is of is right.
  absl::Status unfit = {};
};

// One entry, read back.
struct ReadEntry {
  std::string job;
  std::optional<Job> created;
  bool deleted = false;
  std::vector<coord::TimedRecord> records;
  std::vector<lockstep::tcpstore::Record> torch;  // of the job's store for torch's clients
  std::vector<native::JobEvent> events;           // of the job
  bool of_data = false;                           // of the data service: then there is no job
  std::vector<ReadData> data;
  // Why its records cannot be used, such as one that this program does not know; then there are
  // none here.
  absl::Status unfit;
};

// INVALID_ARGUMENT: not an entry.
absl::StatusOr<ReadEntry> DecodeEntry(std::string_view bytes, const Moment& now);

}  // namespace lockstep::wire::store

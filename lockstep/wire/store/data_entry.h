// Records of the dispatcher to entries of the journal and back; otherwise as entry.h. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "lockstep/data/dispatch/records.h"
#include "lockstep/wire/store/data_records_messages.h"
#include "lockstep/wire/store/entry.h"

namespace lockstep::wire::store {

// Each appends one entry to `out`; returns how many records are in it, as EncodeRecords does.
size_t EncodeDataRecords(absl::Time wall, absl::Span<const dispatch::Record> records,
                         std::string& out);
// Of a snapshot: each record has a time of its own.
size_t EncodeDataRecords(const Moment& now, absl::Span<const dispatch::TimedRecord> records,
                         std::string& out);

// With `unfit` when a value in it is not known here. INVALID_ARGUMENT: a record of a kind that this
// program does not know, so that nobody can tell what it is of.
absl::StatusOr<ReadData> DataRecordOf(DataRecord& from);

}  // namespace lockstep::wire::store

// Records of torch's stores to entries of the journal and back; otherwise as entry.h. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "lockstep/stock/tcpstore/records.h"
#include "lockstep/wire/store/torch_records_messages.h"

namespace lockstep::wire::store {

// Appends one entry to `out`; returns how many records are in it, as EncodeRecords does.
size_t EncodeTorchRecords(const std::string& job, absl::Time wall,
                          absl::Span<const lockstep::tcpstore::Record> records, std::string& out);

// INVALID_ARGUMENT: a record that this program does not know.
absl::StatusOr<lockstep::tcpstore::Record> TorchRecordOf(TorchRecord& from);

}  // namespace lockstep::wire::store

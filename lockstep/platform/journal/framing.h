// The bytes of journal rows: entries with their lengths, and the checksum by which rows are
// chained. Pure. The format is docs/formats/journal.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/journal/journal.h"

namespace lockstep::journal {

// Writes the length of what follows it into the first bytes of an entry (see NewEntry).
// RESOURCE_EXHAUSTED: it is over `entry_bytes_max`.
absl::Status SealEntry(std::string& entry);

// The first of the entries that begin here; nothing: it is not whole. DATA_LOSS: none begins here.
absl::StatusOr<std::optional<std::string_view>> FirstEntry(std::string_view bytes);

// Calls `take` with each entry of a row, until that fails. DATA_LOSS: these bytes are not entries;
// says at which byte.
absl::Status ReadEntries(std::string_view row,
                         absl::FunctionRef<absl::Status(std::string_view entry)> take);

// CRC32C over the checksum of the row before, this row's number and its bytes: so a row that was
// changed, left out, doubled or put elsewhere is found by itself or by the one behind it.
uint32_t ChainChecksum(uint32_t previous, uint64_t sequence, std::string_view row);

// The same for a piece of the snapshot of everything up to row `through`.
uint32_t ChainChecksum(uint32_t previous, uint64_t through, uint64_t piece, std::string_view bytes);

// The last piece of a snapshot, by which one knows that it is whole.
struct SnapshotEnd {
  uint64_t pieces = 0;        // before this one
  uint64_t entries = 0;       // in them
  uint32_t row_checksum = 0;  // of row `through`, on which the next row's is built
};
std::string EncodeSnapshotEnd(const SnapshotEnd& end);
absl::StatusOr<SnapshotEnd> DecodeSnapshotEnd(std::string_view bytes);

}  // namespace lockstep::journal

// What the tables of the journal hold, and how it is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/journal/journal.h"
#include "lockstep/platform/journal/mark.h"
#include "lockstep/platform/journal/sqlite_database.h"

namespace lockstep::journal {

// The snapshot that counts.
struct StoredSnapshot {
  uint64_t through = 0;  // the last row that it stands for
  int64_t first_id = 0;  // of its pieces' rows; 0: there is no snapshot
  int64_t end_id = 0;
  uint64_t bytes = 0;
};

struct StoredState {
  Mark last;  // the last row
  StoredSnapshot snapshot;
  uint64_t row_bytes = 0;  // behind the snapshot
};

// Reads all that is there, once, and checks rows and pieces of the snapshot against each other and
// against the mark: each is chained to the one before.
//
// Threads: thread-compatible.
class StoredStateReader {
 public:
  using Apply = absl::FunctionRef<absl::Status(std::string_view entry)>;

  // The database outlives it. Without a mark there must be no rows.
  StoredStateReader(Database& database, const std::optional<Mark>& mark);

  // Gives the entries to `apply`, those of the snapshot first. DATA_LOSS: something is missing or
  // damaged. An error of `apply` comes with the place of its entry.
  absl::StatusOr<Replayed> Read(Apply apply);

  // After `Read`.
  const StoredState& state() const { return state_; }

 private:
  absl::Status ReadSnapshot(Apply apply);
  absl::Status ReadPieces(uint64_t through, Apply apply);
  absl::Status ReadRows(Apply apply);
  absl::Status CheckMark() const;

  Database& database_;
  const bool has_mark_;
  const Mark mark_;
  StoredState state_;
  Replayed replayed_;
};

}  // namespace lockstep::journal

// The tables of the journal on disk: rows and pieces of a snapshot, each chained to the one before.
// The format is docs/formats/journal.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/journal/journal.h"
#include "lockstep/platform/journal/leftovers.h"
#include "lockstep/platform/journal/mark.h"
#include "lockstep/platform/journal/sqlite_database.h"
#include "lockstep/platform/journal/stored_state.h"
#include "lockstep/platform/journal/write_ahead_log.h"

namespace lockstep::journal {

inline constexpr std::string_view kDatabaseFile = "journal.db";

struct StoreOptions {
  std::string vfs;        // of SQLite; empty: its own
  int page_bytes = 4096;  // when the database is made
  // With so many pages the write-ahead log is carried over into the database.
  int log_pages = 2048;
};

// Reads and writes the database; knows no thread, and no mark but the one that it is given.
class SqliteStore {
 public:
  // Makes the database if there is none. DATA_LOSS: not ours, or damaged. FAILED_PRECONDITION:
  // written by a newer format.
  static absl::StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& directory,
                                                           const StoreOptions& options);

  // Checks all rows against each other and against the mark, and gives their entries to `apply`.
  // What was begun and had not become durable is deleted. Afterwards all that is there is synced.
  // DATA_LOSS: something is missing or damaged.
  absl::StatusOr<Replayed> Replay(const std::optional<Mark>& mark,
                                  absl::FunctionRef<absl::Status(std::string_view entry)> apply);

  // Gives the same entries once more, after `Replay` and before anything is written.
  absl::Status ReadAgain(absl::FunctionRef<absl::Status(std::string_view entry)> apply);

  // The last row.
  const Mark& last() const { return stored_.last; }
  // Of the newest that is whole; 0: there is none.
  uint64_t snapshot_bytes() const { return stored_.snapshot.bytes; }
  uint64_t row_bytes() const { return stored_.row_bytes; }  // behind the snapshot, when it was read

  // All between `Begin` and `Commit` becomes durable with that, or not at all.
  absl::Status Begin();
  // Synced when it returns OK. After an error nothing is known of what is on the disk.
  absl::Status Commit();
  // As the next row of the log; only between `Begin` and `Commit`.
  absl::Status AppendRow(std::string_view bytes);
  // Of everything up to the last row.
  void BeginSnapshot();
  // The next `entries` of the snapshot that was begun; only between `Begin` and `Commit`.
  absl::Status AppendPiece(std::string_view bytes, uint64_t entries);
  // It is whole: takes the place of the one before and of all rows that it stands for. What is left
  // of those is not read any more.
  absl::Status EndSnapshot();
  // Deletes of that about so many bytes, and not many rows.
  bool has_leftovers() const { return leftovers_.any(); }
  // Between `Begin` and `Commit`. Nothing that is still read is deleted.
  absl::Status DeleteLeftovers(uint64_t bytes) {
    return leftovers_.Delete(stored_.snapshot, bytes);
  }

  // Between a `Commit` and a `Begin`; see WriteAheadLog.
  absl::Status CarryOverIfDue() { return log_.CarryOverIfDue(); }
  // While there is nothing else to do; false: it is done.
  bool LayOutSome() { return log_.LayOutSome(); }

  // The database file alone holds everything.
  absl::Status Finish() { return log_.Empty(); }

 private:
  // A snapshot while it is written.
  struct NewSnapshot {
    Mark row;  // the last that it stands for
    uint64_t pieces = 0;
    uint64_t entries = 0;
    uint64_t bytes = 0;
    uint32_t checksum = 0;
    int64_t first_id = 0;
  };

  SqliteStore(std::unique_ptr<Database> database, const StoreOptions& options);
  absl::Status PrepareStatements();
  absl::Status DeleteUnfinished();
  absl::Status AppendPieceRow(std::string_view bytes, bool last);

  const std::unique_ptr<Database> database_;
  WriteAheadLog log_;
  std::unique_ptr<Statement> begin_;
  std::unique_ptr<Statement> commit_;
  std::unique_ptr<Statement> append_row_;
  std::unique_ptr<Statement> append_piece_;
  Leftovers leftovers_;
  StoredState stored_;
  NewSnapshot new_snapshot_;
};

}  // namespace lockstep::journal

// The few things that we ask of SQLite, with errors as Status.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sqlite3.h"

namespace lockstep::journal {

// One database connection. Threads: one at a time.
class Database {
 public:
  // Makes the file if there is none. `vfs` of SQLite; empty: its own for files of one process, so
  // that there is no shared-memory file beside the log and connections of this process can share.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path,
                                                        const std::string& vfs);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // For statements without rows; the error is `LastError`, with their first word.
  absl::Status Execute(const std::string& sql);
  // The first column of the first row, as text.
  absl::StatusOr<std::string> Ask(const std::string& sql);

  // What went wrong last, in SQLite's words, with this before it. The code says what kind it was:
  // DATA_LOSS (not a database, or a damaged one), RESOURCE_EXHAUSTED (disk full), INTERNAL.
  absl::Status LastError(std::string_view doing) const;

  // Carries over from the write-ahead log what was committed, and syncs, unless another connection
  // commits meanwhile (`Sync`); perhaps nothing, if one is just committing. `truncate`: the log is
  // empty then. Returns how many pages of the log are in the database now.
  absl::StatusOr<int> Checkpoint(bool truncate);
  // The database file, or its log.
  absl::Status Sync();
  // The log's file alone: durable when it returns OK, what was committed and is not carried over.
  absl::Status SyncLog();
  // Of the write-ahead log, after the last commit of this connection.
  int log_pages() const { return log_pages_; }

  sqlite3* handle() { return handle_; }
  const std::string& path() const { return path_; }

 private:
  Database(std::string path, sqlite3* handle);
  absl::Status SyncFile(int which);

  const std::string path_;
  sqlite3* const handle_;
  int log_pages_ = 0;
};

// One prepared statement.
class Statement {
 public:
  // The database outlives it. An error: as `LastError`.
  static absl::StatusOr<std::unique_ptr<Statement>> Prepare(Database& database,
                                                            const std::string& sql);
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // `at`: from 1, as SQLite counts parameters. Columns below count from 0.
  void Bind(int at, int64_t value);
  // Not copied: has to stay until `Run`.
  void Bind(int at, std::string_view bytes);

  // To the end, for what gives no rows; ready to be bound again.
  absl::Status Run();
  // Whether there is a row (more). After false, or an error, ready to be bound again.
  absl::StatusOr<bool> Next();
  // To be bound again before its end.
  void Reset();

  // Of the row that `Next` has come to. What a column is has to be asked first: SQLite converts.
  bool IsNumber(int column) const;
  // A blob: text is none.
  bool IsBytes(int column) const;
  // Only where `IsNumber`.
  int64_t Number(int column) const;
  // Until the next call.
  std::string_view BytesOf(int column) const;

 private:
  Statement(Database& database, sqlite3_stmt* statement);

  Database& database_;
  sqlite3_stmt* const statement_;
};

}  // namespace lockstep::journal

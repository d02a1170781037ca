#include "lockstep/platform/journal/sqlite_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/journal/framing.h"
#include "lockstep/platform/journal/sqlite_schema.h"

namespace lockstep::journal {
SqliteStore::SqliteStore(std::unique_ptr<Database> database, const StoreOptions& options)
    : database_(std::move(database)), log_(*database_, options.vfs, options.log_pages) {}

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& directory,
                                                               const StoreOptions& options) {
  auto database =
      Database::Open(absl::StrCat(directory, "/", std::string(kDatabaseFile)), options.vfs);
  if (!database.ok()) return database.status();
  std::unique_ptr<SqliteStore> store(new SqliteStore(*std::move(database), options));
  // Nothing about automatic checkpoints: the pragma would take away the hook that tells how long
  // the log is. What is deleted need not be made unreadable, as Debian's SQLite would: that writes
  // all of it again.
  absl::Status status = store->database_->Execute(
      "PRAGMA synchronous=FULL; PRAGMA secure_delete=OFF; PRAGMA cell_size_check=ON; "
      "PRAGMA temp_store=MEMORY; PRAGMA cache_size=-16384; PRAGMA journal_size_limit=67108864");
  if (status.ok()) status = MakeOrCheckTables(*store->database_, options.page_bytes);
  if (status.ok()) status = store->PrepareStatements();
  if (!status.ok()) return status;
  return store;
}

absl::Status SqliteStore::PrepareStatements() {
  const struct {
    std::unique_ptr<Statement>& statement;
    const char* sql;
  } all[] = {
      {begin_, "BEGIN IMMEDIATE"},
      {commit_, "COMMIT"},
      {append_row_, "INSERT INTO rows(sequence, checksum, bytes) VALUES(?, ?, ?)"},
      {append_piece_,
       "INSERT INTO snapshots(through, piece, last, checksum, bytes) VALUES(?, ?, ?, ?, ?)"},
  };
  for (const auto& each : all) {
    auto statement = Statement::Prepare(*database_, each.sql);
    if (!statement.ok()) return statement.status();
    each.statement = *std::move(statement);
  }
  absl::StatusOr<Leftovers> leftovers = Leftovers::Of(*database_);
  if (leftovers.ok()) leftovers_ = *std::move(leftovers);
  return leftovers.status();
}

absl::StatusOr<Replayed> SqliteStore::Replay(
    const std::optional<Mark>& mark,
    absl::FunctionRef<absl::Status(std::string_view entry)> apply) {
  StoredStateReader reader(*database_, mark);
  absl::StatusOr<Replayed> replayed = reader.Read(apply);
  if (!replayed.ok()) return replayed;
  stored_ = reader.state();
  absl::Status status = DeleteUnfinished();
  // What was killed between writing and syncing. What is in the log stays there: it goes on behind
  // that, in blocks that are laid out already.
  if (status.ok()) status = database_->SyncLog();
  if (!status.ok()) return status;
  return replayed;
}

// Their checksums were right a moment ago, when they were read first.
absl::Status SqliteStore::ReadAgain(absl::FunctionRef<absl::Status(std::string_view entry)> apply) {
  auto all = Statement::Prepare(
      *database_,
      "SELECT bytes FROM (SELECT 0 AS part, id AS place, bytes FROM snapshots WHERE id >= ? AND "
      "id < ? UNION ALL SELECT 1, sequence, bytes FROM rows WHERE sequence > ?) "
      "ORDER BY part, place");
  if (!all.ok()) return all.status();
  (*all)->Bind(1, stored_.snapshot.first_id);
  (*all)->Bind(2, stored_.snapshot.end_id);
  (*all)->Bind(3, static_cast<int64_t>(stored_.snapshot.through));
  while (true) {
    absl::StatusOr<bool> more = (*all)->Next();
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    if (absl::Status read = ReadEntries((*all)->BytesOf(0), apply); !read.ok()) return read;
  }
}

absl::Status SqliteStore::DeleteUnfinished() {
  absl::Status status = Begin();
  if (!status.ok()) return status;
  const std::string above =
      absl::StrCat("DELETE FROM rows WHERE sequence > ", stored_.last.through);
  const std::string pieces =
      absl::StrFormat("DELETE FROM snapshots WHERE id >= %d AND through <> %d",
                      stored_.snapshot.first_id, stored_.snapshot.through);
  status = database_->Execute(above);
  if (status.ok()) status = database_->Execute(pieces);
  if (status.ok()) status = Commit();
  leftovers_.Expect();
  return status;
}

absl::Status SqliteStore::Begin() { return begin_->Run(); }

absl::Status SqliteStore::Commit() { return commit_->Run(); }

absl::Status SqliteStore::AppendRow(std::string_view bytes) {
  const Mark row = {
      .through = stored_.last.through + 1,
      .checksum = ChainChecksum(stored_.last.checksum, stored_.last.through + 1, bytes)};
  append_row_->Bind(1, static_cast<int64_t>(row.through));
  append_row_->Bind(2, int64_t{row.checksum});
  append_row_->Bind(3, bytes);
  absl::Status status = append_row_->Run();
  if (status.ok()) stored_.last = row;
  return status;
}

void SqliteStore::BeginSnapshot() { new_snapshot_ = {.row = stored_.last}; }

absl::Status SqliteStore::AppendPiece(std::string_view bytes, uint64_t entries) {
  new_snapshot_.entries += entries;
  new_snapshot_.bytes += bytes.size();
  return AppendPieceRow(bytes, false);
}

absl::Status SqliteStore::AppendPieceRow(std::string_view bytes, bool last) {
  LOCKSTEP_DCHECK(new_snapshot_.row.through <= stored_.last.through);
  const uint64_t through = new_snapshot_.row.through;
  new_snapshot_.checksum =
      ChainChecksum(new_snapshot_.checksum, through, new_snapshot_.pieces, bytes);
  append_piece_->Bind(1, static_cast<int64_t>(through));
  append_piece_->Bind(2, static_cast<int64_t>(new_snapshot_.pieces));
  append_piece_->Bind(3, int64_t{last ? 1 : 0});
  append_piece_->Bind(4, int64_t{new_snapshot_.checksum});
  append_piece_->Bind(5, bytes);
  absl::Status status = append_piece_->Run();
  if (new_snapshot_.pieces == 0) {
    new_snapshot_.first_id = sqlite3_last_insert_rowid(database_->handle());
  }
  ++new_snapshot_.pieces;
  return status;
}

absl::Status SqliteStore::EndSnapshot() {
  const std::string end = EncodeSnapshotEnd({.pieces = new_snapshot_.pieces,
                                             .entries = new_snapshot_.entries,
                                             .row_checksum = new_snapshot_.row.checksum});
  if (absl::Status status = AppendPieceRow(end, true); !status.ok()) return status;
  const int64_t end_id = sqlite3_last_insert_rowid(database_->handle());
  // Without its end, the one before counts no more.
  const std::string before =
      absl::StrCat("DELETE FROM snapshots WHERE id = ", stored_.snapshot.end_id);
  if (absl::Status status = database_->Execute(before); !status.ok()) return status;
  stored_.snapshot = {.through = new_snapshot_.row.through,
                      .first_id = new_snapshot_.first_id,
                      .end_id = end_id,
                      .bytes = new_snapshot_.bytes};
  leftovers_.Expect();
  return absl::OkStatus();
}

}  // namespace lockstep::journal

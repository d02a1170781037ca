#include "lockstep/platform/journal/sqlite_store.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/platform/journal/framing.h"

namespace lockstep::journal {
namespace {

constexpr int kApplicationId = 0x4C534A4C;  // "LSJL"

// In the order of their names. What is in the file must be exactly this.
constexpr char kRowsTable[] =
    "CREATE TABLE rows(sequence INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, "
    "bytes BLOB NOT NULL)";
constexpr char kSnapshotsTable[] =
    "CREATE TABLE snapshots(id INTEGER PRIMARY KEY, through INTEGER NOT NULL, "
    "piece INTEGER NOT NULL, last INTEGER NOT NULL, checksum INTEGER NOT NULL, "
    "bytes BLOB NOT NULL)";

// Deleted at once, at most: small ones cost by their number.
constexpr int kLeftoversMax = 512;

std::string ExpectedTables() {
  return absl::StrCat("table rows rows ", kRowsTable, ";table snapshots snapshots ",
                      kSnapshotsTable);
}

// Entries are the writer's business, so what is wrong with one is said with its place before it.
absl::Status At(const std::string& place, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(place, ": ", std::string(status.message())));
}

}  // namespace

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
  if (status.ok()) status = store->MakeOrCheckTables(options.page_bytes);
  if (status.ok()) status = store->PrepareStatements();
  if (!status.ok()) return status;
  return store;
}

absl::Status SqliteStore::MakeOrCheckTables(int page_bytes) {
  absl::StatusOr<std::string> tables = database_->Ask("SELECT count(*) FROM sqlite_schema");
  absl::StatusOr<std::string> version = database_->Ask("PRAGMA user_version");
  for (const auto* answer : {&tables, &version}) {
    if (!answer->ok()) return answer->status();
  }
  if (*tables == "0" && *version == "0") {
    const std::string make = absl::StrFormat(
        "PRAGMA page_size=%d; PRAGMA journal_mode=WAL; BEGIN IMMEDIATE; %s; %s; "
        "PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT",
        page_bytes, kRowsTable, kSnapshotsTable, kApplicationId, kFormatVersion);
    if (absl::Status status = database_->Execute(make); !status.ok()) return status;
  } else if (absl::Status status = CheckTables(); !status.ok()) {
    return status;
  }
  absl::StatusOr<std::string> mode = database_->Ask("PRAGMA journal_mode=WAL");
  if (!mode.ok()) return mode.status();
  if (*mode != "wal")
    return absl::InternalError(database_->path() + ": cannot be put into WAL mode");
  return absl::OkStatus();
}

absl::Status SqliteStore::CheckTables() {
  absl::StatusOr<std::string> version = database_->Ask("PRAGMA user_version");
  absl::StatusOr<std::string> application = database_->Ask("PRAGMA application_id");
  absl::StatusOr<std::string> tables = database_->Ask(
      "SELECT group_concat(type||' '||name||' '||tbl_name||' '||sql, ';') FROM "
      "(SELECT * FROM sqlite_schema ORDER BY name)");
  for (const auto* answer : {&version, &application, &tables}) {
    if (!answer->ok()) return answer->status();
  }
  if (*application != absl::StrCat(kApplicationId)) {
    return Damaged("its header", "it is not a Lockstep journal");
  }
  int number = 0;
  if (!absl::SimpleAtoi(*version, &number) || number < kFormatVersionMin ||
      number > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: its format is version %s and this program knows version %d: start the version of "
        "lockstep-server that wrote it, or a newer one",
        database_->path(), *version, kFormatVersion));
  }
  if (*tables != ExpectedTables()) return Damaged("its tables", "Lockstep did not create them");
  // What SQLite's own pages look like. Of what is in them, the rows' checksums tell.
  absl::StatusOr<std::string> check = database_->Ask("PRAGMA quick_check(1)");
  if (!check.ok()) return check.status();
  if (*check != "ok") return Damaged("its pages", *check);
  if (number == kFormatVersion) return absl::OkStatus();
  return database_->Execute(absl::StrFormat("PRAGMA user_version=%d", kFormatVersion));
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
      {look_at_rows_,
       "SELECT sequence, length(bytes) FROM rows WHERE sequence <= ? ORDER BY sequence"},
      {look_at_pieces_, "SELECT id, length(bytes) FROM snapshots WHERE id <= ? ORDER BY id"},
      {delete_rows_, "DELETE FROM rows WHERE sequence <= ?"},
      {delete_pieces_, "DELETE FROM snapshots WHERE id <= ?"},
  };
  for (const auto& each : all) {
    auto statement = Statement::Prepare(*database_, each.sql);
    if (!statement.ok()) return statement.status();
    each.statement = *std::move(statement);
  }
  return absl::OkStatus();
}

absl::Status SqliteStore::Damaged(const std::string& place, const std::string& what) const {
  return absl::DataLossError(absl::StrCat(database_->path(), ": ", place, ": ", what));
}

absl::StatusOr<Replayed> SqliteStore::Replay(
    const std::optional<Mark>& mark,
    absl::FunctionRef<absl::Status(std::string_view entry)> apply) {
  Replayed replayed;
  absl::Status status = ReadSnapshot(apply, replayed);
  if (status.ok()) status = ReadRows(mark.value_or(Mark()), apply, replayed);
  if (!status.ok()) return status;
  if (!mark && last_.through > 0) {
    return Damaged(absl::StrCat("row ", last_.through),
                   "there are rows, but the mark beside them is missing");
  }
  if (last_.through < mark.value_or(Mark()).through) {
    return Damaged(absl::StrCat("row ", last_.through + 1),
                   absl::StrFormat("it is missing; the mark says that rows up to %d were durable",
                                   mark->through));
  }
  status = DeleteUnfinished();
  // What was killed between writing and syncing. What is in the log stays there: it goes on behind
  // that, in blocks that are laid out already.
  if (status.ok()) status = database_->SyncLog();
  if (!status.ok()) return status;
  return replayed;
}

absl::Status SqliteStore::ReadSnapshot(Apply apply, Replayed& replayed) {
  auto ends = Statement::Prepare(*database_, "SELECT through FROM snapshots WHERE last <> 0");
  if (!ends.ok()) return ends.status();
  absl::StatusOr<bool> more = (*ends)->Next();
  if (!more.ok()) return more.status();
  if (!*more) return absl::OkStatus();
  const auto through = static_cast<uint64_t>((*ends)->Number(0));
  more = (*ends)->Next();
  if (!more.ok()) return more.status();
  if (*more) return Damaged("the snapshot", "it has more than one end");
  return ReadPieces(through, apply, replayed);
}

absl::Status SqliteStore::ReadPieces(uint64_t through, Apply apply, Replayed& replayed) {
  auto pieces = Statement::Prepare(
      *database_,
      "SELECT piece, last, checksum, bytes, id FROM snapshots WHERE through = ? ORDER BY id");
  if (!pieces.ok()) return pieces.status();
  (*pieces)->Bind(1, static_cast<int64_t>(through));
  uint32_t checksum = 0;
  for (uint64_t piece = 0;; ++piece) {
    const std::string place =
        absl::StrFormat("snapshot of rows up to %d, piece %d", through, piece);
    absl::StatusOr<bool> more = (*pieces)->Next();
    if (!more.ok()) return more.status();
    if (!*more) return Damaged(place, "it is missing");
    const bool is_bytes = (*pieces)->IsBytes(3);
    const std::string_view bytes = (*pieces)->BytesOf(3);
    checksum = ChainChecksum(checksum, through, piece, bytes);
    if (static_cast<uint64_t>((*pieces)->Number(0)) != piece || !is_bytes ||
        (*pieces)->Number(2) != int64_t{checksum}) {
      return Damaged(place, "its checksum is wrong");
    }
    if (piece == 0) snapshot_first_id_ = (*pieces)->Number(4);
    if ((*pieces)->Number(1) != 0) {
      absl::StatusOr<SnapshotEnd> end = DecodeSnapshotEnd(bytes);
      if (!end.ok()) return Damaged(place, std::string(end.status().message()));
      if (end->pieces != piece || end->entries != replayed.snapshot_entries) {
        return Damaged(place, "it does not belong to the pieces before it");
      }
      last_ = {.through = through, .checksum = end->row_checksum};
      snapshot_through_ = through;
      snapshot_end_id_ = (*pieces)->Number(4);
      return absl::OkStatus();
    }
    const absl::Status status = ReadEntries(bytes, [&](std::string_view entry) {
      ++replayed.snapshot_entries;
      return apply(entry);
    });
    if (!status.ok()) return At(absl::StrCat(database_->path(), ": ", place), status);
    replayed.bytes += bytes.size();
    snapshot_bytes_ += bytes.size();
  }
}

absl::Status SqliteStore::ReadRows(const Mark& mark, Apply apply, Replayed& replayed) {
  if (absl::Status status = CheckMark(mark); !status.ok()) return status;
  // Those before may be there still: see DeleteLeftovers.
  auto rows = Statement::Prepare(
      *database_,
      "SELECT sequence, checksum, bytes FROM rows WHERE sequence > ? ORDER BY sequence");
  if (!rows.ok()) return rows.status();
  (*rows)->Bind(1, static_cast<int64_t>(snapshot_through_));
  while (true) {
    absl::StatusOr<bool> more = (*rows)->Next();
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    const uint64_t sequence = last_.through + 1;
    const std::string place = absl::StrCat("row ", sequence);
    if ((*rows)->Number(0) != static_cast<int64_t>(sequence)) {
      return Damaged(place, absl::StrFormat("row %d is in its place", (*rows)->Number(0)));
    }
    const bool is_bytes = (*rows)->IsBytes(2);
    const std::string_view bytes = (*rows)->BytesOf(2);
    const uint32_t checksum = ChainChecksum(last_.checksum, sequence, bytes);
    if (!is_bytes || (*rows)->Number(1) != int64_t{checksum}) {
      // Above the mark, and nothing behind it: it may have been torn when the writer died.
      more = (*rows)->Next();
      if (sequence <= mark.through || !more.ok() || *more) {
        return Damaged(place, "its checksum is not right");
      }
      replayed.cut =
          absl::StrFormat("row %d, which was not whole and had not been durable", sequence);
      return absl::OkStatus();
    }
    const absl::Status status = ReadEntries(bytes, [&](std::string_view entry) {
      ++replayed.entries;
      return apply(entry);
    });
    if (!status.ok()) return At(absl::StrCat(database_->path(), ": ", place), status);
    replayed.bytes += bytes.size();
    row_bytes_ += bytes.size();
    last_ = {.through = sequence, .checksum = checksum};
    if (absl::Status wrong = CheckMark(mark); !wrong.ok()) return wrong;
  }
}

// Their checksums were right a moment ago, when they were read first.
absl::Status SqliteStore::ReadAgain(Apply apply) {
  auto all = Statement::Prepare(
      *database_,
      "SELECT bytes FROM (SELECT 0 AS part, id AS place, bytes FROM snapshots WHERE id >= ? AND "
      "id < ? UNION ALL SELECT 1, sequence, bytes FROM rows WHERE sequence > ?) "
      "ORDER BY part, place");
  if (!all.ok()) return all.status();
  (*all)->Bind(1, snapshot_first_id_);
  (*all)->Bind(2, snapshot_end_id_);
  (*all)->Bind(3, static_cast<int64_t>(snapshot_through_));
  while (true) {
    absl::StatusOr<bool> more = (*all)->Next();
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    if (absl::Status read = ReadEntries((*all)->BytesOf(0), apply); !read.ok()) return read;
  }
}

absl::Status SqliteStore::CheckMark(const Mark& mark) const {
  if (mark.through != last_.through || mark.checksum == last_.checksum) return absl::OkStatus();
  return Damaged(absl::StrCat("row ", mark.through),
                 "it is not the one that the mark was made for: do database and mark come from "
                 "different copies?");
}

absl::Status SqliteStore::DeleteUnfinished() {
  absl::Status status = Begin();
  if (!status.ok()) return status;
  const std::string above = absl::StrCat("DELETE FROM rows WHERE sequence > ", last_.through);
  const std::string pieces =
      absl::StrFormat("DELETE FROM snapshots WHERE id >= %d AND through <> %d", snapshot_first_id_,
                      snapshot_through_);
  status = database_->Execute(above);
  if (status.ok()) status = database_->Execute(pieces);
  if (status.ok()) status = Commit();
  has_leftovers_ = true;  // perhaps
  return status;
}

absl::Status SqliteStore::Begin() { return begin_->Run(); }

absl::Status SqliteStore::Commit() { return commit_->Run(); }

absl::Status SqliteStore::AppendRow(std::string_view bytes) {
  const Mark row = {.through = last_.through + 1,
                    .checksum = ChainChecksum(last_.checksum, last_.through + 1, bytes)};
  append_row_->Bind(1, static_cast<int64_t>(row.through));
  append_row_->Bind(2, int64_t{row.checksum});
  append_row_->Bind(3, bytes);
  absl::Status status = append_row_->Run();
  if (status.ok()) last_ = row;
  return status;
}

void SqliteStore::BeginSnapshot() { new_snapshot_ = {.row = last_}; }

absl::Status SqliteStore::AppendPiece(std::string_view bytes, uint64_t entries) {
  new_snapshot_.entries += entries;
  new_snapshot_.bytes += bytes.size();
  return AppendPieceRow(bytes, false);
}

absl::Status SqliteStore::AppendPieceRow(std::string_view bytes, bool last) {
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
  const uint64_t through = new_snapshot_.row.through;
  const std::string end = EncodeSnapshotEnd({.pieces = new_snapshot_.pieces,
                                             .entries = new_snapshot_.entries,
                                             .row_checksum = new_snapshot_.row.checksum});
  if (absl::Status status = AppendPieceRow(end, true); !status.ok()) return status;
  const int64_t end_id = sqlite3_last_insert_rowid(database_->handle());
  // Without its end, the one before counts no more.
  const std::string before = absl::StrCat("DELETE FROM snapshots WHERE id = ", snapshot_end_id_);
  if (absl::Status status = database_->Execute(before); !status.ok()) return status;
  snapshot_through_ = through;
  snapshot_bytes_ = new_snapshot_.bytes;
  snapshot_first_id_ = new_snapshot_.first_id;
  snapshot_end_id_ = end_id;
  has_leftovers_ = true;
  return absl::OkStatus();
}

absl::Status SqliteStore::DeleteLeftovers(uint64_t bytes) {
  absl::StatusOr<bool> deleted =
      DeleteSome(*look_at_pieces_, *delete_pieces_, snapshot_first_id_ - 1, bytes);
  if (deleted.ok() && !*deleted) {
    deleted =
        DeleteSome(*look_at_rows_, *delete_rows_, static_cast<int64_t>(snapshot_through_), bytes);
  }
  if (deleted.ok()) has_leftovers_ = *deleted;
  return deleted.status();
}

absl::StatusOr<bool> SqliteStore::DeleteSome(Statement& look, Statement& remove, int64_t through,
                                             uint64_t bytes) {
  std::optional<int64_t> last;
  uint64_t found = 0;
  look.Bind(1, through);
  for (int rows = 0; rows < kLeftoversMax && found < bytes; ++rows) {
    absl::StatusOr<bool> more = look.Next();
    if (!more.ok()) return more.status();
    if (!*more) break;
    last = look.Number(0);
    found += static_cast<uint64_t>(look.Number(1));
  }
  look.Reset();
  if (!last) return false;
  remove.Bind(1, *last);
  if (absl::Status status = remove.Run(); !status.ok()) return status;
  return true;
}

}  // namespace lockstep::journal

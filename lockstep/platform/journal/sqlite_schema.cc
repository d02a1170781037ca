#include "lockstep/platform/journal/sqlite_schema.h"

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::journal {
namespace {

constexpr int kApplicationId = 0x4C534A4C;  // "LSJL"
static_assert(kFormatVersionMin <= kFormatVersion);

// In the order of their names. What is in the file must be exactly this.
constexpr char kRowsTable[] =
    "CREATE TABLE rows(sequence INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, "
    "bytes BLOB NOT NULL)";
constexpr char kSnapshotsTable[] =
    "CREATE TABLE snapshots(id INTEGER PRIMARY KEY, through INTEGER NOT NULL, "
    "piece INTEGER NOT NULL, last INTEGER NOT NULL, checksum INTEGER NOT NULL, "
    "bytes BLOB NOT NULL)";

std::string ExpectedTables() {
  return absl::StrCat("table rows rows ", kRowsTable, ";table snapshots snapshots ",
                      kSnapshotsTable);
}

absl::Status CheckTables(Database& database) {
  absl::StatusOr<std::string> version = database.Ask("PRAGMA user_version");
  absl::StatusOr<std::string> application = database.Ask("PRAGMA application_id");
  absl::StatusOr<std::string> tables = database.Ask(
      "SELECT group_concat(type||' '||name||' '||tbl_name||' '||sql, ';') FROM "
      "(SELECT * FROM sqlite_schema ORDER BY name)");
  for (const auto* answer : {&version, &application, &tables}) {
    if (!answer->ok()) return answer->status();
  }
  if (*application != absl::StrCat(kApplicationId)) {
    return Damaged(database, "its header", "it is not a Lockstep journal");
  }
  int number = 0;
  if (!absl::SimpleAtoi(*version, &number) || number < kFormatVersionMin ||
      number > kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: its format is version %s and this program knows version %d: start the version of "
        "lockstep-server that wrote it, or a newer one",
        database.path(), *version, kFormatVersion));
  }
  if (*tables != ExpectedTables())
    return Damaged(database, "its tables", "Lockstep did not create them");
  // What SQLite's own pages look like. Of what is in them, the rows' checksums tell.
  absl::StatusOr<std::string> check = database.Ask("PRAGMA quick_check(1)");
  if (!check.ok()) return check.status();
  if (*check != "ok") return Damaged(database, "its pages", *check);
  if (number == kFormatVersion) return absl::OkStatus();
  return database.Execute(absl::StrFormat("PRAGMA user_version=%d", kFormatVersion));
}

}  // namespace

absl::Status Damaged(const Database& database, const std::string& place, const std::string& what) {
  return absl::DataLossError(absl::StrCat(database.path(), ": ", place, ": ", what));
}

absl::Status MakeOrCheckTables(Database& database, int page_bytes) {
  absl::StatusOr<std::string> tables = database.Ask("SELECT count(*) FROM sqlite_schema");
  absl::StatusOr<std::string> version = database.Ask("PRAGMA user_version");
  for (const auto* answer : {&tables, &version}) {
    if (!answer->ok()) return answer->status();
  }
  if (*tables == "0" && *version == "0") {
    const std::string make = absl::StrFormat(
        "PRAGMA page_size=%d; PRAGMA journal_mode=WAL; BEGIN IMMEDIATE; %s; %s; "
        "PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT",
        page_bytes, kRowsTable, kSnapshotsTable, kApplicationId, kFormatVersion);
    if (absl::Status status = database.Execute(make); !status.ok()) return status;
  } else if (absl::Status status = CheckTables(database); !status.ok()) {
    return status;
  }
  absl::StatusOr<std::string> mode = database.Ask("PRAGMA journal_mode=WAL");
  if (!mode.ok()) return mode.status();
  if (*mode != "wal") return absl::InternalError(database.path() + ": cannot be put into WAL mode");
  return absl::OkStatus();
}

}  // namespace lockstep::journal

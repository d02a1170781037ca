#include "lockstep/platform/journal/sqlite_database.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::journal {
namespace {

// Holds the file for this process; the index of the log is in memory.
constexpr char kOneProcessVfs[] = "unix-excl";
constexpr int kBusyMilliseconds = 2000;

absl::StatusCode CodeOf(int result) {
  switch (result & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
    case SQLITE_SCHEMA:
    case SQLITE_ERROR:  // such as a table that is not there any more
      return absl::StatusCode::kDataLoss;
    case SQLITE_FULL:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path,
                                                         const std::string& vfs) {
  sqlite3* handle = nullptr;
  const int result = sqlite3_open_v2(
      path.c_str(), &handle,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
      vfs.empty() ? kOneProcessVfs : vfs.c_str());
  std::unique_ptr<Database> database(new Database(path, handle));
  if (result != SQLITE_OK) return database->LastError("cannot be opened");
  // What we do not ask for must not happen by itself: whether closing may write is decided above.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // Connections of this process take the log's locks for moments.
  sqlite3_busy_timeout(handle, kBusyMilliseconds);
  sqlite3_wal_hook(
      handle,
      [](void* self, sqlite3*, const char*, int pages) {
        static_cast<Database*>(self)->log_pages_ = pages;
        return SQLITE_OK;
      },
      database.get());
  return database;
}

Database::Database(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}

Database::~Database() { sqlite3_close(handle_); }

absl::Status Database::Execute(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) {
    return absl::OkStatus();
  }
  return LastError(sql.substr(0, sql.find_first_of(" (")));
}

absl::StatusOr<std::string> Database::Ask(const std::string& sql) {
  auto statement = Statement::Prepare(*this, sql);
  if (!statement.ok()) return statement.status();
  absl::StatusOr<bool> more = (*statement)->Next();
  if (!more.ok()) return more.status();
  return *more ? std::string((*statement)->BytesOf(0)) : std::string();
}

absl::Status Database::LastError(std::string_view doing) const {
  const int result = handle_ == nullptr ? SQLITE_NOMEM : sqlite3_extended_errcode(handle_);
  const char* text = handle_ == nullptr ? "out of memory" : sqlite3_errmsg(handle_);
  const int system = handle_ == nullptr ? 0 : sqlite3_system_errno(handle_);
  std::string message =
      absl::StrFormat("%s: %s: %s (SQLite %d", path_, std::string(doing), text, result);
  // Of reads and writes SQLite's own words say only that they failed.
  if (system != 0 && (result & 0xFF) != SQLITE_CORRUPT) {
    absl::StrAppend(&message, ", ", std::string(absl::ErrnoToStatus(system, "errno").message()));
  }
  message += ")";
  return absl::Status(CodeOf(result), message);
}

absl::StatusOr<int> Database::Checkpoint(bool truncate) {
  const int mode = truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
  int carried = 0;
  const int result = sqlite3_wal_checkpoint_v2(handle_, nullptr, mode, nullptr, &carried);
  // Another connection was changing the log's index: that is no reason to wait.
  if (!truncate && result == SQLITE_BUSY) return 0;
  if (result != SQLITE_OK) return LastError("checkpoint");
  log_pages_ = 0;
  return carried;
}

absl::Status Database::Sync() { return SyncFile(SQLITE_FCNTL_FILE_POINTER); }

absl::Status Database::SyncLog() { return SyncFile(SQLITE_FCNTL_JOURNAL_POINTER); }

absl::Status Database::SyncFile(int which) {
  sqlite3_file* file = nullptr;
  int result = sqlite3_file_control(handle_, "main", which, &file);
  if (result == SQLITE_OK) result = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
  if (result == SQLITE_OK) return absl::OkStatus();
  return absl::InternalError(
      absl::StrFormat("%s: sync: %s (SQLite %d)", path_, sqlite3_errstr(result), result));
}

absl::StatusOr<std::unique_ptr<Statement>> Statement::Prepare(Database& database,
                                                              const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database.handle(), sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
    return database.LastError("cannot be read");
  }
  return std::unique_ptr<Statement>(new Statement(database, statement));
}

Statement::Statement(Database& database, sqlite3_stmt* statement)
    : database_(database), statement_(statement) {}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::Bind(int at, int64_t value) { sqlite3_bind_int64(statement_, at, value); }

void Statement::Bind(int at, std::string_view bytes) {
  // Null data would be no value instead of an empty one.
  const char* data = bytes.data() == nullptr ? "" : bytes.data();
  sqlite3_bind_blob64(statement_, at, data, bytes.size(), SQLITE_STATIC);
}

absl::Status Statement::Run() {
  const int result = sqlite3_step(statement_);
  absl::Status status =
      result == SQLITE_DONE ? absl::OkStatus() : database_.LastError("cannot be written");
  sqlite3_reset(statement_);
  return status;
}

absl::StatusOr<bool> Statement::Next() {
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  absl::Status status = absl::OkStatus();
  if (result != SQLITE_DONE) status = database_.LastError("cannot be read");
  sqlite3_reset(statement_);
  if (!status.ok()) return status;
  return false;
}

void Statement::Reset() { sqlite3_reset(statement_); }

bool Statement::IsNumber(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_INTEGER;
}

bool Statement::IsBytes(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_BLOB;
}

int64_t Statement::Number(int column) const { return sqlite3_column_int64(statement_, column); }

std::string_view Statement::BytesOf(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return data == nullptr
             ? std::string_view()
             : std::string_view(static_cast<const char*>(data), static_cast<size_t>(size));
}

}  // namespace lockstep::journal

#include "lockstep/platform/journal/leftovers.h"

#include <optional>
#include <utility>

namespace lockstep::journal {
namespace {

// Deleted at once, at most: small ones cost by their number.
constexpr int kLeftoversMax = 512;

}  // namespace

absl::StatusOr<Leftovers> Leftovers::Of(Database& database) {
  Leftovers leftovers;
  const struct {
    std::unique_ptr<Statement>& statement;
    const char* sql;
  } all[] = {
      {leftovers.rows_.look,
       "SELECT sequence, length(bytes) FROM rows WHERE sequence <= ? ORDER BY sequence"},
      {leftovers.rows_.remove, "DELETE FROM rows WHERE sequence <= ?"},
      {leftovers.pieces_.look, "SELECT id, length(bytes) FROM snapshots WHERE id <= ? ORDER BY id"},
      {leftovers.pieces_.remove, "DELETE FROM snapshots WHERE id <= ?"},
  };
  for (const auto& each : all) {
    auto statement = Statement::Prepare(database, each.sql);
    if (!statement.ok()) return statement.status();
    each.statement = *std::move(statement);
  }
  return leftovers;
}

absl::Status Leftovers::Delete(const StoredSnapshot& snapshot, uint64_t bytes) {
  absl::StatusOr<bool> deleted = pieces_.DeleteSome(snapshot.first_id - 1, bytes);
  if (deleted.ok() && !*deleted) {
    deleted = rows_.DeleteSome(static_cast<int64_t>(snapshot.through), bytes);
  }
  if (deleted.ok()) any_ = *deleted;
  return deleted.status();
}

absl::StatusOr<bool> Leftovers::Table::DeleteSome(int64_t through, uint64_t bytes) {
  std::optional<int64_t> last;
  uint64_t found = 0;
  look->Bind(1, through);
  for (int rows = 0; rows < kLeftoversMax && found < bytes; ++rows) {
    absl::StatusOr<bool> more = look->Next();
    if (!more.ok()) return more.status();
    if (!*more) break;
    last = look->Number(0);
    found += static_cast<uint64_t>(look->Number(1));
  }
  look->Reset();
  if (!last) return false;
  remove->Bind(1, *last);
  if (absl::Status status = remove->Run(); !status.ok()) return status;
  return true;
}

}  // namespace lockstep::journal

#include "lockstep/platform/journal/stored_state.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/platform/journal/framing.h"
#include "lockstep/platform/journal/sqlite_schema.h"

namespace lockstep::journal {
namespace {

// Entries are the writer's business, so what is wrong with one is said with its place before it.
absl::Status At(const std::string& place, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(place, ": ", std::string(status.message())));
}

}  // namespace

StoredStateReader::StoredStateReader(Database& database, const std::optional<Mark>& mark)
    : database_(database), has_mark_(mark.has_value()), mark_(mark.value_or(Mark())) {}

absl::StatusOr<Replayed> StoredStateReader::Read(Apply apply) {
  absl::Status status = ReadSnapshot(apply);
  if (status.ok()) status = ReadRows(apply);
  if (!status.ok()) return status;
  const uint64_t last = state_.last.through;
  if (!has_mark_ && last > 0) {
    return Damaged(database_, absl::StrCat("row ", last),
                   "there are rows, but the mark beside them is missing");
  }
  if (last < mark_.through) {
    return Damaged(database_, absl::StrCat("row ", last + 1),
                   absl::StrFormat("it is missing; the mark says that rows up to %d were durable",
                                   mark_.through));
  }
  return replayed_;
}

absl::Status StoredStateReader::ReadSnapshot(Apply apply) {
  auto ends = Statement::Prepare(database_, "SELECT through FROM snapshots WHERE last <> 0");
  if (!ends.ok()) return ends.status();
  absl::StatusOr<bool> more = (*ends)->Next();
  if (!more.ok()) return more.status();
  if (!*more) return absl::OkStatus();
  const auto through = static_cast<uint64_t>((*ends)->Number(0));
  more = (*ends)->Next();
  if (!more.ok()) return more.status();
  if (*more) return Damaged(database_, "the snapshot", "it has more than one end");
  return ReadPieces(through, apply);
}

absl::Status StoredStateReader::ReadPieces(uint64_t through, Apply apply) {
  auto pieces = Statement::Prepare(
      database_,
      "SELECT piece, last, checksum, bytes, id FROM snapshots WHERE through = ? ORDER BY id");
  if (!pieces.ok()) return pieces.status();
  (*pieces)->Bind(1, static_cast<int64_t>(through));
  uint32_t checksum = 0;
  for (uint64_t piece = 0;; ++piece) {
    const std::string place =
        absl::StrFormat("snapshot of rows up to %d, piece %d", through, piece);
    absl::StatusOr<bool> more = (*pieces)->Next();
    if (!more.ok()) return more.status();
    if (!*more) return Damaged(database_, place, "it is missing");
    const bool is_bytes = (*pieces)->IsBytes(3);
    const std::string_view bytes = (*pieces)->BytesOf(3);
    checksum = ChainChecksum(checksum, through, piece, bytes);
    if (static_cast<uint64_t>((*pieces)->Number(0)) != piece || !is_bytes ||
        (*pieces)->Number(2) != int64_t{checksum}) {
      return Damaged(database_, place, "its checksum is wrong");
    }
    if (piece == 0) state_.snapshot.first_id = (*pieces)->Number(4);
    if ((*pieces)->Number(1) != 0) {
      absl::StatusOr<SnapshotEnd> end = DecodeSnapshotEnd(bytes);
      if (!end.ok()) return Damaged(database_, place, std::string(end.status().message()));
      if (end->pieces != piece || end->entries != replayed_.snapshot_entries) {
        return Damaged(database_, place, "it does not belong to the pieces before it");
      }
      state_.last = {.through = through, .checksum = end->row_checksum};
      state_.snapshot.through = through;
      state_.snapshot.end_id = (*pieces)->Number(4);
      return absl::OkStatus();
    }
    const absl::Status status = ReadEntries(bytes, [&](std::string_view entry) {
      ++replayed_.snapshot_entries;
      return apply(entry);
    });
    if (!status.ok()) return At(absl::StrCat(database_.path(), ": ", place), status);
    replayed_.bytes += bytes.size();
    state_.snapshot.bytes += bytes.size();
  }
}

absl::Status StoredStateReader::ReadRows(Apply apply) {
  if (absl::Status status = CheckMark(); !status.ok()) return status;
  // Those before may be there still: see DeleteLeftovers.
  auto rows = Statement::Prepare(
      database_, "SELECT sequence, checksum, bytes FROM rows WHERE sequence > ? ORDER BY sequence");
  if (!rows.ok()) return rows.status();
  (*rows)->Bind(1, static_cast<int64_t>(state_.snapshot.through));
  while (true) {
    absl::StatusOr<bool> more = (*rows)->Next();
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    const uint64_t sequence = state_.last.through + 1;
    const std::string place = absl::StrCat("row ", sequence);
    if ((*rows)->Number(0) != static_cast<int64_t>(sequence)) {
      return Damaged(database_, place,
                     absl::StrFormat("row %d is in its place", (*rows)->Number(0)));
    }
    const bool is_bytes = (*rows)->IsBytes(2);
    const std::string_view bytes = (*rows)->BytesOf(2);
    const uint32_t checksum = ChainChecksum(state_.last.checksum, sequence, bytes);
    if (!is_bytes || (*rows)->Number(1) != int64_t{checksum}) {
      // Above the mark, and nothing behind it: it may have been torn when the writer died.
      more = (*rows)->Next();
      if (sequence <= mark_.through || !more.ok() || *more) {
        return Damaged(database_, place, "its checksum is not right");
      }
      replayed_.cut =
          absl::StrFormat("row %d, which was not whole and had not been durable", sequence);
      return absl::OkStatus();
    }
    const absl::Status status = ReadEntries(bytes, [&](std::string_view entry) {
      ++replayed_.entries;
      return apply(entry);
    });
    if (!status.ok()) return At(absl::StrCat(database_.path(), ": ", place), status);
    replayed_.bytes += bytes.size();
    state_.row_bytes += bytes.size();
    state_.last = {.through = sequence, .checksum = checksum};
    if (absl::Status wrong = CheckMark(); !wrong.ok()) return wrong;
  }
}

absl::Status StoredStateReader::CheckMark() const {
  if (mark_.through != state_.last.through || mark_.checksum == state_.last.checksum)
    return absl::OkStatus();
  return Damaged(database_, absl::StrCat("row ", mark_.through),
                 "it is not the one that the mark was made for: do database and mark come from "
                 "different copies?");
}

}  // namespace lockstep::journal

#include "lockstep/platform/etcd/state_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/platform/journal/framing.h"

namespace lockstep::etcd {
namespace {

constexpr int64_t kPageKeysFirst = 16;
constexpr int64_t kPageKeysMax = 4096;
constexpr int64_t kPageGrowth = 4;

absl::Status At(std::string_view key, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(absl::string_view(key.data(), key.size()), ": ",
                                                  std::string(status.message())));
}

}  // namespace

absl::Status StateReader::Damaged(std::string_view key, const std::string& what) const {
  return absl::DataLossError(absl::StrFormat(
      "the state in etcd is damaged: %s: %s. The server did not start, since that would take back "
      "what clients were told. Restore etcd from a good backup, or use another prefix to begin "
      "with an empty state",
      std::string(key), what));
}

absl::Status StateReader::Read(Ask ask, Apply apply) {
  absl::Status status = ReadHead(ask);
  if (!status.ok()) return status;
  log_.last = log_.snapshot.through;
  if (log_.snapshot_set != 0) status = ReadSnapshot(ask, apply);
  return status.ok() ? ReadRows(ask, apply) : status;
}

absl::Status StateReader::Follow(Ask ask, Apply apply) {
  if (absl::Status status = ReadHead(ask); !status.ok()) return status;
  if (log_.snapshot.through > log_.last) {
    return absl::AbortedError(absl::StrFormat(
        "rows up to %d have been replaced by a snapshot, and this server had read them up to %d",
        log_.snapshot.through, log_.last));
  }
  return ReadRows(ask, apply);
}

absl::Status StateReader::ReadRows(Ask ask, Apply apply) {
  // What was not whole may have been cut, and written anew.
  together_ = {};
  const Range rows = {
      .key = layout_.row(log_.last + 1), .end = layout_.rows_end(), .revision = revision_};
  absl::Status status =
      ReadPages(ask, rows, [&](const KeyValue& row) { return TakeRow(row, apply); });
  if (!status.ok()) return status;
  log_.cut = together_.first_set;
  replayed_.cut.clear();
  if (together_.rows > 0) {
    replayed_.cut =
        absl::StrFormat("%d rows behind row %d, which were not whole and had not been durable",
                        together_.rows, log_.last);
  }
  return absl::OkStatus();
}

absl::Status StateReader::ReadHead(Ask ask) {
  const Transaction transaction = {
      .then = {Range{.key = layout_.lineage()}, Range{.key = layout_.snapshot()},
               Range{.key = layout_.row(0), .end = layout_.rows_end(), .limit = 1}}};
  const absl::StatusOr<TransactionResult> answer = ask(transaction);
  if (!answer.ok()) return answer.status();
  if (answer->results.size() != transaction.then.size()) {
    return absl::DataLossError("etcd does not answer what it was asked");
  }
  revision_ = answer->revision;  // all that follows is read as it was then
  return TakeHead(answer->results[0].found, answer->results[1].found, answer->results[2].found);
}

absl::Status StateReader::TakeHead(const std::vector<KeyValue>& lineages,
                                   const std::vector<KeyValue>& snapshots,
                                   const std::vector<KeyValue>& rows) {
  if (lineages.empty()) {
    if (snapshots.empty() && rows.empty()) {
      return absl::NotFoundError(absl::StrCat("there is no state at ", layout_.prefix()));
    }
    return Damaged(layout_.lineage(), "it is missing, but there are rows or a snapshot");
  }
  const absl::StatusOr<Lineage> lineage = DecodeLineage(lineages[0].value);
  if (!lineage.ok()) return Damaged(layout_.lineage(), std::string(lineage.status().message()));
  if (lineage->format > kFormat) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the state at %s has format %d, and this server knows formats up to %d: use a newer server",
        layout_.prefix(), lineage->format, kFormat));
  }
  if (!lineage_.empty() && lineage_ != lineage->id) {
    return Damaged(layout_.lineage(), "another state has been put in the place of this one");
  }
  lineage_ = lineage->id;
  log_.first_row = 0;
  if (!rows.empty()) {
    const auto first = layout_.SequenceOf(rows[0].key);
    if (!first || *first == 0) return Damaged(rows[0].key, "no row has that name");
    log_.first_row = *first;
  }
  if (snapshots.empty()) {
    if (log_.first_row > 1) return Damaged(layout_.row(1), "it is missing, and so is a snapshot");
    return absl::OkStatus();
  }
  const absl::StatusOr<SnapshotName> snapshot = DecodeSnapshotName(snapshots[0].value);
  if (!snapshot.ok()) return Damaged(layout_.snapshot(), std::string(snapshot.status().message()));
  log_.snapshot = *snapshot;
  log_.snapshot_set = snapshots[0].modified;
  return absl::OkStatus();
}

absl::Status StateReader::ReadSnapshot(Ask ask, Apply apply) {
  uint32_t checksum = 0;
  uint64_t number = 0;
  bool ended = false;
  std::string rest;  // of an entry that goes on in the next piece
  const SnapshotName& snapshot = log_.snapshot;
  const Range range = {.key = layout_.pieces(snapshot),
                       .end = EndOfPrefix(layout_.pieces(snapshot)),
                       .revision = revision_};
  absl::Status status = ReadPages(ask, range, [&](const KeyValue& piece) -> absl::Status {
    if (ended) return Damaged(piece.key, "it stands behind the last piece");
    if (piece.key != layout_.piece(snapshot, number)) {
      return Damaged(layout_.piece(snapshot, number), "it is missing");
    }
    const auto decoded = DecodePiece(checksum, snapshot.through, number, piece.value);
    if (!decoded.ok()) return Damaged(piece.key, std::string(decoded.status().message()));
    checksum = decoded->head.checksum;
    log_.snapshot_bytes += piece.value.size();
    ++number;
    if (decoded->head.more) {
      return At(piece.key, TakePiece(decoded->bytes, rest, apply));
    }
    ended = true;
    const auto end = journal::DecodeSnapshotEnd(decoded->bytes);
    if (!end.ok()) return Damaged(piece.key, std::string(end.status().message()));
    if (!rest.empty() || end->pieces + 1 != number || end->entries != replayed_.snapshot_entries) {
      return Damaged(piece.key, "it does not belong to the pieces before it");
    }
    log_.checksum = end->row_checksum;
    return absl::OkStatus();
  });
  if (status.ok() && !ended) {
    return Damaged(layout_.piece(snapshot, number), "it is missing");
  }
  return status;
}

absl::Status StateReader::TakePiece(std::string_view bytes, std::string& rest, Apply apply) {
  replayed_.bytes += bytes.size();
  if (!rest.empty()) {
    rest += bytes;
    bytes = rest;
  }
  while (!bytes.empty()) {
    const auto entry = journal::FirstEntry(bytes);
    if (!entry.ok()) return entry.status();
    if (!entry->has_value()) break;
    ++replayed_.snapshot_entries;
    if (absl::Status status = apply(**entry); !status.ok()) return status;
    bytes.remove_prefix(journal::kEntryPrefixBytes + (*entry)->size());
  }
  rest = std::string(bytes);
  return absl::OkStatus();
}

absl::Status StateReader::TakeRow(const KeyValue& row, Apply apply) {
  const uint64_t sequence = log_.last + together_.rows + 1;
  if (row.key != layout_.row(sequence)) {
    return Damaged(layout_.row(sequence), absl::StrCat("it is missing; ", row.key, " follows"));
  }
  const uint32_t before = together_.rows > 0 ? together_.checksum : log_.checksum;
  const auto decoded = DecodeRow(before, sequence, row.value);
  if (!decoded.ok()) return Damaged(row.key, std::string(decoded.status().message()));
  if (together_.rows == 0) together_.first_set = row.modified;
  ++together_.rows;
  together_.checksum = decoded->head.checksum;
  together_.row_bytes += row.value.size();
  std::string_view whole = decoded->bytes;
  if (decoded->head.more || !together_.bytes.empty()) {
    if (together_.bytes.size() + whole.size() > kTogetherBytesMax) {
      return Damaged(row.key, "too much was appended together");
    }
    together_.bytes += whole;
    whole = together_.bytes;
  }
  if (decoded->head.more) return absl::OkStatus();
  log_.last = sequence;
  log_.checksum = decoded->head.checksum;
  log_.row_bytes += together_.row_bytes;
  replayed_.bytes += whole.size();
  const absl::Status status = journal::ReadEntries(whole, [&](std::string_view entry) {
    ++replayed_.entries;
    return apply(entry);
  });
  together_ = {};
  return At(row.key, status);
}

absl::Status StateReader::ReadPages(Ask ask, Range range,
                                    absl::FunctionRef<absl::Status(const KeyValue&)> take) {
  range.limit = kPageKeysFirst;
  while (true) {
    const absl::StatusOr<TransactionResult> answer = ask({.then = {range}});
    // It is longer than the client takes.
    if (absl::IsResourceExhausted(answer.status()) && range.limit > 1) {
      range.limit /= 2;
      continue;
    }
    if (!answer.ok()) return answer.status();
    if (answer->results.size() != 1) {
      return absl::DataLossError("etcd does not answer what it was asked");
    }
    const OperationResult& page = answer->results[0];
    int64_t bytes = 1;
    for (const KeyValue& found : page.found) {
      bytes += static_cast<int64_t>(found.value.size());
      if (absl::Status status = take(found); !status.ok()) return status;
    }
    if (!page.more || page.found.empty()) return absl::OkStatus();
    range.key = page.found.back().key + '\0';
    const int64_t each = bytes / static_cast<int64_t>(page.found.size()) + 1;
    // What comes may be longer than what came.
    const int64_t most = std::min(kPageKeysMax, kPageGrowth * range.limit);
    range.limit = std::clamp<int64_t>(kPageBytes / each, 1, most);
  }
}

}  // namespace lockstep::etcd

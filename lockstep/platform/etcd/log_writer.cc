#include "lockstep/platform/etcd/log_writer.h"

#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "lockstep/platform/journal/framing.h"

namespace lockstep::etcd {
namespace {

// Of a snapshot, at once: a commit may have to wait for so much.
constexpr size_t kPieceBytes = size_t{256} << 10;

}  // namespace

absl::Status LogWriter::Commit() { return log_.Take(calls_.send(log_.transaction())); }

absl::Status LogWriter::Write(journal::JournalQueue::Work work) {
  const uint64_t entries = taken_ + work.entries;
  const uint64_t rows_before = log_.log().last;
  for (journal::JournalQueue::Queued& each : work.queued) {
    if (absl::Status status = Take(std::move(each)); !status.ok()) return status;
  }
  if (absl::Status status = WriteCollected(); !status.ok()) return status;
  if (told_ == entries) return absl::OkStatus();
  // Only confirmations are left. A row that was written since they were asked for is one, too.
  if (log_.log().last == rows_before) {
    log_.Confirm();
    if (absl::Status status = Commit(); !status.ok()) return status;
  }
  told_ = taken_;
  calls_.durable(told_);
  return absl::OkStatus();
}

absl::Status LogWriter::Take(journal::JournalQueue::Queued each) {
  if (each.snapshot != nullptr) {
    if (absl::Status status = WriteCollected(); !status.ok()) return status;
    snapshot_ = std::move(each.snapshot);
    snapshot_entries_ = 0;
    log_.BeginSnapshot();
    return absl::OkStatus();
  }
  const bool fits = row_.size() + each.bytes.size() <= row_bytes_max_;
  if (!fits || in_long_ || each.more) {
    if (absl::Status status = WriteCollected(); !status.ok()) return status;
  }
  unsaid_ += each.bytes.size();
  if (in_long_ || each.more || each.bytes.size() > row_bytes_max_) {
    return WriteLong(each.bytes, each.more);
  }
  row_ += each.bytes;
  ++taken_;
  return absl::OkStatus();
}

absl::Status LogWriter::WriteLong(std::string_view bytes, bool more) {
  in_long_ = true;
  long_bytes_ += bytes.size();
  if (long_bytes_ > kTogetherBytesMax) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "more than %d bytes are to be written together (together_bytes_max)", kTogetherBytesMax));
  }
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, row_bytes_max_);
    bytes.remove_prefix(part.size());
    if (absl::Status status = WriteRow(part, more || !bytes.empty()); !status.ok()) return status;
  }
  if (more) return absl::OkStatus();
  in_long_ = false;
  long_bytes_ = 0;
  ++taken_;
  told_ = taken_;
  queue_.Written(std::exchange(unsaid_, 0));
  calls_.durable(told_);
  return absl::OkStatus();
}

absl::Status LogWriter::WriteCollected() {
  if (row_.empty()) return absl::OkStatus();
  if (absl::Status status = WriteRow(row_, /*more=*/false); !status.ok()) return status;
  row_.clear();
  told_ = taken_;
  queue_.Written(std::exchange(unsaid_, 0));
  calls_.durable(told_);
  return absl::OkStatus();
}

absl::Status LogWriter::WriteRow(std::string_view bytes, bool more) {
  if (log_.has_cut_rows()) {
    log_.DeleteSome();
    if (absl::Status status = Commit(); !status.ok()) return status;
  }
  log_.AppendRow(bytes, more);
  return Commit();
}

absl::Status LogWriter::WorkBeside() {
  if (log_.has_cut_rows() || log_.has_old_pieces() || snapshot_ == nullptr) {
    log_.DeleteSome();
    return Commit();
  }
  return WritePiece();
}

absl::Status LogWriter::WritePiece() {
  std::string piece;
  std::optional<std::string> entry;
  while (piece.size() < kPieceBytes && (entry = snapshot_())) {
    if (absl::Status status = journal::SealEntry(*entry); !status.ok()) return status;
    piece += *entry;
    ++snapshot_entries_;
  }
  // An entry that is too long for etcd goes into several pieces, and readers put it together.
  for (std::string_view rest = piece; !rest.empty();) {
    const std::string_view part = rest.substr(0, row_bytes_max_);
    rest.remove_prefix(part.size());
    log_.AppendPiece(part, /*last=*/false);
    if (absl::Status status = Commit(); !status.ok()) return status;
  }
  if (entry) return absl::OkStatus();
  snapshot_ = nullptr;
  log_.AppendPiece(journal::EncodeSnapshotEnd({.pieces = log_.pieces(),
                                               .entries = snapshot_entries_,
                                               .row_checksum = log_.row_checksum()}),
                   /*last=*/true);
  if (absl::Status status = Commit(); !status.ok()) return status;
  queue_.EndSnapshot(log_.log().snapshot_bytes);
  return absl::OkStatus();
}

}  // namespace lockstep::etcd

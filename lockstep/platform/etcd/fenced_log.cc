#include "lockstep/platform/etcd/fenced_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::etcd {
void FencedLog::Begin(Doing doing) {
  LOCKSTEP_CHECK(!pending());
  doing_ = doing;
  written_.clear();
  transaction_ = {
      .compare = {{.what = Compare::What::kModified, .key = layout_.leader(), .revision = epoch_}},
      .otherwise = {Range{.key = layout_.leader()}}};
}

void FencedLog::OnlyIfModified(std::string key, Revision revision) {
  transaction_.compare.push_back(
      {.what = Compare::What::kModified, .key = key, .revision = revision});
  transaction_.otherwise.push_back(Range{.key = std::move(key)});
}

void FencedLog::PutOnce(std::string key, std::string value) {
  written_ = value;
  transaction_.compare.push_back({.what = Compare::What::kCreated, .key = key, .revision = 0});
  transaction_.otherwise.push_back(Range{.key = key});
  transaction_.then.push_back(Put{.key = std::move(key), .value = std::move(value)});
}

void FencedLog::AppendRow(std::string_view bytes, bool more) {
  LOCKSTEP_CHECK(!log_.cut);
  Begin(Doing::kRow);
  const uint64_t sequence = log_.last + 1;
  PutOnce(layout_.row(sequence), EncodeRow(log_.checksum, sequence, more, bytes));
}

void FencedLog::Confirm() {
  Begin(Doing::kConfirmation);
  transaction_.then.push_back(Range{.key = layout_.leader()});
}

void FencedLog::BeginSnapshot() {
  LOCKSTEP_CHECK(!snapshot_);
  snapshot_ =
      Snapshot{.name = {.epoch = epoch_, .through = log_.last}, .row_checksum = log_.checksum};
}

void FencedLog::AppendPiece(std::string_view bytes, bool last) {
  LOCKSTEP_CHECK(snapshot_ && !old_pieces_);
  Begin(Doing::kPiece);
  last_piece_ = last;
  const SnapshotName& name = snapshot_->name;
  PutOnce(layout_.piece(name, snapshot_->pieces),
          EncodePiece(snapshot_->checksum, name.through, snapshot_->pieces, !last, bytes));
  if (!last) return;
  // An old one that arrives late does not come back.
  OnlyIfModified(layout_.snapshot(), log_.snapshot_set);
  transaction_.then.push_back(Put{.key = layout_.snapshot(), .value = Encode(name)});
}

void FencedLog::DeleteSome() {
  LOCKSTEP_CHECK(has_leftovers());
  Begin(Doing::kDeletion);
  if (has_cut_rows()) {
    // What is written there later stays.
    const std::string first = layout_.row(log_.last + 1);
    OnlyIfModified(first, log_.cut);
    transaction_.then.push_back(Delete{.key = first, .end = layout_.rows_end()});
  } else if (old_pieces_) {
    // Never those of this epoch that follow the snapshot which counts now.
    const std::string kept = layout_.pieces(log_.snapshot);
    transaction_.then.push_back(Delete{.key = layout_.all_pieces(), .end = kept});
    if (log_.snapshot.epoch < epoch_) {
      transaction_.then.push_back(
          Delete{.key = EndOfPrefix(kept), .end = layout_.pieces_since(epoch_)});
    }
  } else {
    const uint64_t end = std::min(NextRow() + kRowsDeletedAtOnce, log_.snapshot.through + 1);
    transaction_.then.push_back(Delete{.key = layout_.row(NextRow()), .end = layout_.row(end)});
  }
}

absl::Status FencedLog::Take(const absl::StatusOr<TransactionResult>& answer) {
  LOCKSTEP_CHECK(pending());
  if (!answer.ok()) return answer.status();
  if (absl::Status status = Judge(*answer); !status.ok()) return status;
  revision_ = answer->revision;
  Done(*answer);
  return absl::OkStatus();
}

// A transaction that was sent twice fails the second time, by what it wrote the first time.
absl::Status FencedLog::Judge(const TransactionResult& result) const {
  const size_t expected =
      result.succeeded ? transaction_.then.size() : transaction_.otherwise.size();
  if (result.results.size() != expected) {
    return absl::DataLossError(absl::StrCat("etcd answers ", expected, " questions with ",
                                            result.results.size(), " results"));
  }
  if (result.succeeded) return absl::OkStatus();
  const std::vector<KeyValue>& leader = result.results[0].found;
  if (leader.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this server does not lead any more: the key ", layout_.leader(),
                     " is gone, so its lease has ended, or etcd has lost its data"));
  }
  if (leader[0].modified != epoch_) {
    return absl::FailedPreconditionError(
        absl::StrCat("this server does not lead any more: another one has led since revision ",
                     leader[0].modified, ", this one since ", epoch_));
  }
  // What it was to delete is gone, or something else is there by now.
  if (doing_ == Doing::kDeletion) return absl::OkStatus();
  if (!written_.empty() && !result.results[1].found.empty() &&
      result.results[1].found[0].value == written_) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("etcd holds at ", transaction_.compare[1].key,
                   " what this server did not write there, though it leads"));
}

void FencedLog::Done(const TransactionResult& result) {
  switch (std::exchange(doing_, Doing::kNothing)) {
    case Doing::kRow:
      ++log_.last;
      log_.checksum = ChecksumOf(written_);
      log_.row_bytes += written_.size();
      if (log_.first_row == 0) log_.first_row = log_.last;
      break;
    case Doing::kPiece:
      ++snapshot_->pieces;
      snapshot_->checksum = ChecksumOf(written_);
      snapshot_->bytes += written_.size();
      if (last_piece_) DoneLastPiece(result);
      break;
    case Doing::kDeletion:
      DoneDeletion();
      break;
    case Doing::kConfirmation:
    case Doing::kNothing:
      break;
  }
}

void FencedLog::DoneLastPiece(const TransactionResult& result) {
  // Sent twice, the answer says what the first one did.
  const bool twice = !result.succeeded && !result.results[2].found.empty();
  log_.snapshot_set = twice ? result.results[2].found[0].modified : result.revision;
  log_.snapshot = snapshot_->name;
  log_.snapshot_bytes = snapshot_->bytes;
  old_pieces_ = true;
  snapshot_.reset();
}

void FencedLog::DoneDeletion() {
  if (has_cut_rows()) {
    log_.cut = 0;
  } else if (old_pieces_) {
    old_pieces_ = false;
  } else {
    log_.first_row = std::min(NextRow() + kRowsDeletedAtOnce, log_.snapshot.through + 1);
  }
  if (log_.first_row > log_.last) log_.first_row = 0;
}

}  // namespace lockstep::etcd

// The log of one leader in etcd: rows, snapshots and what they leave, each written by a transaction
// that takes effect only while this server leads. Pure.
//
// Whoever uses it sends `transaction()` until `Take` has an answer that decides. Sent twice, it
// takes effect once; and one that arrives late, when others have followed it, takes none that
// matters: it cannot undo them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/etcd/layout.h"
#include "lockstep/platform/etcd/transaction.h"

namespace lockstep::etcd {

// What there was in etcd when it was read.
struct FoundLog {
  uint64_t last = 0;          // the last row that counts; 0: none
  uint32_t checksum = 0;      // of it
  SnapshotName snapshot;      // that counts; of row 0: none does
  Revision snapshot_set = 0;  // since when; 0: never
  uint64_t first_row = 0;     // the lowest that is there; 0: none is
  // Behind the last one are rows of what was not whole, the first of them written then; 0: none.
  Revision cut = 0;
  uint64_t row_bytes = 0;  // behind the snapshot
  uint64_t snapshot_bytes = 0;
};

// Threads: thread-compatible. Bounds: one transaction, of a row or a piece, or of
// `kRowsDeletedAtOnce` rows.
class FencedLog {
 public:
  static constexpr uint64_t kRowsDeletedAtOnce = 1024;

  // `epoch`: the revision of the leader's key since which this server leads.
  FencedLog(Layout layout, Revision epoch, const FoundLog& found)
      : layout_(std::move(layout)), epoch_(epoch), log_(found), old_pieces_(true) {
    // Else it would write what the snapshot stands for.
    LOCKSTEP_CHECK(found.last >= found.snapshot.through);
  }

  // Each of these makes the transaction that is pending. Only when none is.
  void AppendRow(std::string_view bytes, bool more);
  // Whether this server leads still.
  void Confirm();
  // From now on pieces are those of a snapshot of everything up to the last row.
  void BeginSnapshot();
  // The next piece of it; the last one, which is a journal::SnapshotEnd, makes it count. Only
  // without old pieces.
  void AppendPiece(std::string_view bytes, bool last);
  // Some of what does not count any more. Only with leftovers.
  void DeleteSome();

  // What does not count is there still, or may be.
  bool has_leftovers() const {
    return has_cut_rows() || old_pieces_ || NextRow() <= log_.snapshot.through;
  }
  // They stand where the next row has to be.
  bool has_cut_rows() const { return log_.cut != 0; }
  // They stand where the pieces of a snapshot have to be.
  bool has_old_pieces() const { return old_pieces_; }
  // Of the snapshot that is being written: pieces so far, and the checksum of its last row.
  uint64_t pieces() const { return snapshot_->pieces; }
  uint32_t row_checksum() const { return snapshot_->row_checksum; }

  bool pending() const { return doing_ != Doing::kNothing; }
  const Transaction& transaction() const { return transaction_; }
  // The answer. OK: it has taken effect, and nothing is pending. An error for which `IsUndecided`
  // holds: it is to be sent again. FAILED_PRECONDITION: another server leads, or none, so nothing
  // takes effect any more. DATA_LOSS: there is what this server did not write. Another error: what
  // etcd refuses.
  absl::Status Take(const absl::StatusOr<TransactionResult>& answer);

  const FoundLog& log() const { return log_; }
  Revision epoch() const { return epoch_; }
  // Of the last transaction that took effect.
  Revision revision() const { return revision_; }

 private:
  enum class Doing { kNothing, kRow, kConfirmation, kPiece, kDeletion };
  struct Snapshot {
    SnapshotName name;
    uint32_t row_checksum = 0;  // of its last row
    uint64_t pieces = 0;
    uint32_t checksum = 0;  // of the last piece
    uint64_t bytes = 0;
  };

  void Begin(Doing doing);
  // Takes effect only while the key is as it was then.
  void OnlyIfModified(std::string key, Revision revision);
  // Writes `value` where nothing is yet.
  void PutOnce(std::string key, std::string value);
  absl::Status Judge(const TransactionResult& result) const;
  void Done(const TransactionResult& result);
  void DoneLastPiece(const TransactionResult& result);
  void DoneDeletion();
  uint64_t NextRow() const { return log_.first_row == 0 ? log_.last + 1 : log_.first_row; }

  const Layout layout_;
  const Revision epoch_;
  FoundLog log_;
  bool old_pieces_;  // others than those of the snapshot that counts may be there
  std::optional<Snapshot> snapshot_;
  Revision revision_ = 0;

  Doing doing_ = Doing::kNothing;
  Transaction transaction_;
  std::string written_;  // by it, where it writes a row or a piece
  bool last_piece_ = false;
};

}  // namespace lockstep::etcd

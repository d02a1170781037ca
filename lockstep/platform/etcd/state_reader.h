// Reads a state from etcd: the snapshot, the rows behind it, and rows that come later.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/etcd/fenced_log.h"
#include "lockstep/platform/etcd/layout.h"
#include "lockstep/platform/etcd/transaction.h"
#include "lockstep/platform/journal/journal.h"

namespace lockstep::etcd {

// Checks each row and piece against the one before it. Asks for pages of about `kPageBytes`.
//
// Threads: thread-compatible. Bounds: a page, and what was appended together, which has at most
// kTogetherBytesMax bytes.
class StateReader {
 public:
  using Ask = absl::FunctionRef<absl::StatusOr<TransactionResult>(const Transaction&)>;
  using Apply = absl::FunctionRef<absl::Status(std::string_view entry)>;
  static constexpr int64_t kPageBytes = int64_t{8} << 20;

  explicit StateReader(Layout layout) : layout_(std::move(layout)) {}

  // Gives the entries of the snapshot and those behind it to `apply`, in order. NOT_FOUND: there is
  // no state. FAILED_PRECONDITION: it is of a newer format. DATA_LOSS: something is missing or
  // changed, and where. OUT_OF_RANGE: it has changed so much meanwhile that this has to begin anew.
  // An error of `apply` comes with the place of its entry.
  absl::Status Read(Ask ask, Apply apply);
  // Only whether there is a state that this program can read; errors as `Read`.
  absl::Status ReadHead(Ask ask);

  // Gives the entries that have been written since to `apply`. ABORTED: rows that were not read yet
  // have been replaced by a snapshot, so reading has to begin anew. Other errors as `Read`.
  absl::Status Follow(Ask ask, Apply apply);

  // After `Read`.
  const FoundLog& log() const { return log_; }
  const journal::Replayed& replayed() const { return replayed_; }

 private:
  absl::Status ReadSnapshot(Ask ask, Apply apply);
  // The rows behind the last one.
  absl::Status ReadRows(Ask ask, Apply apply);
  absl::Status TakeRow(const KeyValue& row, Apply apply);
  absl::Status TakeHead(const std::vector<KeyValue>& lineages,
                        const std::vector<KeyValue>& snapshots, const std::vector<KeyValue>& rows);
  // Gives what is whole of a snapshot's entries to `apply`; `rest` is what is not, before and
  // after.
  absl::Status TakePiece(std::string_view bytes, std::string& rest, Apply apply);
  // Gives the keys from `range` to `take`, page by page.
  absl::Status ReadPages(Ask ask, Range range,
                         absl::FunctionRef<absl::Status(const KeyValue&)> take);
  absl::Status Damaged(std::string_view key, const std::string& what) const;

  const Layout layout_;
  std::string lineage_;
  Revision revision_ = 0;  // of the last head
  FoundLog log_;
  journal::Replayed replayed_;
  // What was appended together, while it is not whole: it does not count yet.
  struct {
    uint64_t rows = 0;
    Revision first_set = 0;  // when its first row was written
    uint32_t checksum = 0;   // of its last row
    uint64_t row_bytes = 0;
    std::string bytes;
  } together_;
};

}  // namespace lockstep::etcd

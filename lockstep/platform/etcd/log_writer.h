// Brings what a journal's queue holds into etcd, through the fenced log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/etcd/fenced_log.h"
#include "lockstep/platform/etcd/transaction.h"
#include "lockstep/platform/journal/journal.h"
#include "lockstep/platform/journal/journal_queue.h"

namespace lockstep::etcd {

// Threads: the writer's. Ownership: what it is given outlives it. Bounds: a row, and a piece.
class LogWriter {
 public:
  struct Calls {
    // Sends it until there is an answer that decides, or until this server may not lead any more:
    // then it says so, FAILED_PRECONDITION.
    absl::AnyInvocable<absl::StatusOr<TransactionResult>(const Transaction&)> send;
    // All entries up to this one are durable.
    absl::AnyInvocable<void(uint64_t through)> durable;
  };

  LogWriter(FencedLog& log, journal::JournalQueue& queue, size_t row_bytes_max, Calls calls)
      : log_(log), queue_(queue), row_bytes_max_(row_bytes_max), calls_(std::move(calls)) {}

  // Writes it all, in order, and tells what is durable as soon as it is.
  absl::Status Write(journal::JournalQueue::Work work);

  // Some of what nobody waits for: of a snapshot, or of deleting what that replaced.
  absl::Status WorkBeside();
  bool has_work_beside() const { return snapshot_ != nullptr || log_.has_leftovers(); }

 private:
  absl::Status Commit();
  // A row of what is collected; `more`: the next one belongs to it.
  absl::Status WriteRow(std::string_view bytes, bool more);
  absl::Status WriteCollected();
  // What is appended together and too long for one row.
  absl::Status WriteLong(std::string_view bytes, bool more);
  absl::Status Take(journal::JournalQueue::Queued each);
  absl::Status WritePiece();

  FencedLog& log_;
  journal::JournalQueue& queue_;
  const size_t row_bytes_max_;
  Calls calls_;

  std::string row_;       // that is being collected: whole entries
  bool in_long_ = false;  // rows have been written of what is appended together, and not all
  uint64_t long_bytes_ = 0;
  uint64_t taken_ = 0;  // entries, whole in what was written or is collected
  uint64_t told_ = 0;   // of them as durable
  size_t unsaid_ = 0;   // bytes that were taken and are not durable

  journal::SnapshotSource snapshot_;  // null: none is being written
  uint64_t snapshot_entries_ = 0;
};

}  // namespace lockstep::etcd

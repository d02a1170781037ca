// What waits to be written by the journal's thread, and what that thread and its owner know of each
// other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/journal/journal.h"

namespace lockstep::journal {

// When a snapshot is worth its writing. Pure.
class SnapshotPolicy {
 public:
  // Behind so many bytes, and so many times the last snapshot.
  SnapshotPolicy(uint64_t bytes_min, uint64_t factor) : bytes_min_(bytes_min), factor_(factor) {}

  // What was there when the journal was opened.
  void Found(uint64_t log_bytes, uint64_t snapshot_bytes) {
    log_bytes_ = log_bytes;
    snapshot_bytes_ = snapshot_bytes;
  }
  // So many bytes of rows were queued.
  void Grew(uint64_t bytes) { log_bytes_ += bytes; }
  // The log is long enough for a snapshot, by both bounds, and none is being written.
  bool Wants() const {
    return !running_ && log_bytes_ > bytes_min_ && log_bytes_ > factor_ * snapshot_bytes_;
  }
  // False: one is being written, or nothing has come since the last one.
  bool Begin() {
    if (running_ || log_bytes_ == 0) return false;
    running_ = true;
    log_bytes_ = 0;
    return true;
  }
  // The one that was begun is whole; its size counts for the next.
  void End(uint64_t snapshot_bytes) {
    snapshot_bytes_ = snapshot_bytes;
    running_ = false;
  }

 private:
  const uint64_t bytes_min_;
  const uint64_t factor_;
  uint64_t log_bytes_ = 0;  // behind the last snapshot, or the one that is being written
  uint64_t snapshot_bytes_ = 0;
  bool running_ = false;
};

// Threads: thread-safe. `Take`, `Written`, `EndSnapshot` and `Fail` are the writer's. Bounds: the
// writer ends the journal once `bytes` is too large.
class JournalQueue {
 public:
  // Entries in their order, those that are kept together as one; where a snapshot begins, its
  // source stands between them.
  struct Queued {
    std::string bytes;
    SnapshotSource snapshot = nullptr;
    bool more = false;  // the next belongs to it: what is kept together is too long for one row
  };
  // What the writer is to do. What is queued at once is committed at once.
  struct Work {
    std::vector<Queued> queued;
    size_t bytes = 0;      // of `queued`
    uint64_t entries = 0;  // that are whole with `queued`
    bool closing = false;  // it is the last
    absl::Status broken;   // why nothing more may be written
  };

  explicit JournalQueue(const SnapshotPolicy& snapshots) : snapshots_(snapshots) {}

  // What was there when the journal was opened.
  void Found(uint64_t log_bytes, uint64_t snapshot_bytes);

  // Rows that make one entry. `sealed` is not OK when they cannot be written: that ends the
  // journal. Returns the entry's number, from 1.
  uint64_t Append(std::vector<std::string> rows, absl::Status sealed);
  // An entry of no bytes: the writer is to confirm that it may write. Returns its number.
  uint64_t Confirm();
  // The log is long enough, and no snapshot is being written.
  bool WantsSnapshot() const;
  // Ignored while one is being written, or when nothing has come since the last one.
  void BeginSnapshot(SnapshotSource source);
  // Queued or taken, and not durable yet.
  size_t bytes() const;
  // The writer is to end, once all is written.
  void Close();
  // Something beside the queue went wrong: the writer is to end.
  void Break(absl::Status why);
  // Why the writer ended; OK: it did not, or was closed.
  absl::Status failure() const;

  // Takes all that is queued. `wait`: until there is something, or the end.
  Work Take(bool wait);
  // So many bytes of what was taken are durable.
  void Written(size_t bytes);
  // The snapshot is whole, so that another may begin.
  void EndSnapshot(uint64_t snapshot_bytes);
  // The writer ends: nothing is queued from here on.
  void Fail(absl::Status why);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // in `queue_`, and what the writer has taken of it
  uint64_t appended_ ABSL_GUARDED_BY(mutex_) = 0;
  SnapshotPolicy snapshots_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);   // what the writer is to end for
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // what it has ended for
};

}  // namespace lockstep::journal

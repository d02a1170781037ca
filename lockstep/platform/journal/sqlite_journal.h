// A journal on disk: a database of SQLite and a mark beside it, in a directory of their own.
//
// Entries are written by a thread of the journal's: it takes all that is queued, makes one row of
// it (more when it is much) and commits, so that the disk is waited for once for all of them. Every
// commit is synced. The mark has a thread of its own, and so has the carrying over of the log into
// the database (WriteAheadLog), so that no commit waits for either. The first thing that goes wrong
// ends it: nothing is tried again, since after a failed sync nobody knows what is on the disk.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/platform/journal/journal.h"
#include "lockstep/platform/journal/journal_queue.h"
#include "lockstep/platform/journal/mark.h"
#include "lockstep/platform/journal/mark_writer.h"
#include "lockstep/platform/journal/sqlite_store.h"
#include "lockstep/platform/journal/state_directory.h"

namespace lockstep::journal {

struct SqliteOptions {
  std::string directory;
  // From a commit until the mark says so, at most; and a sync more.
  absl::Duration mark_delay = absl::Milliseconds(50);
  // A snapshot is wanted when the rows are larger than this, and than `snapshot_factor` times the
  // last snapshot.
  uint64_t snapshot_bytes_min = 64 << 20;
  uint64_t snapshot_factor = 2;
  // Entries of a row, all together; one that is larger has its own. A piece of a snapshot is no
  // larger either.
  size_t row_bytes_max = 1 << 20;
  // Waiting to be written. A disk that is so far behind counts as broken.
  size_t queued_bytes_max = size_t{1} << 30;
  // Of the database, when it is made.
  int page_bytes = 4096;
  // See StoreOptions.
  int log_pages = StoreOptions().log_pages;
  // Of SQLite, for tests that break the disk; empty: its own.
  std::string vfs;
};

// Bounds: SqliteOptions; on disk about three times the snapshot and twice `snapshot_bytes_min`.
class SqliteJournal : public Journal {
 public:
  // Takes the directory. FAILED_PRECONDITION: it is not fit, or another process's; or the format is
  // newer. DATA_LOSS: what is there is damaged.
  static absl::StatusOr<std::unique_ptr<SqliteJournal>> Open(SqliteOptions options);
  ~SqliteJournal() override;

  // Of the directory: what an operator should change; empty: nothing.
  const std::string& warning() const { return directory_->warning(); }

  absl::StatusOr<Replayed> Replay(
      absl::FunctionRef<absl::Status(std::string_view entry)> apply) override;
  absl::Status ReadAgain(absl::FunctionRef<absl::Status(std::string_view entry)> apply) override {
    return store_->ReadAgain(apply);
  }
  absl::Status Start(Durable durable, Failed failed) override;
  uint64_t Append(std::string entry) override;
  uint64_t AppendTogether(std::vector<std::string> entries) override;
  bool WantsSnapshot() const override { return queue_.WantsSnapshot(); }
  void BeginSnapshot(SnapshotSource source) override { queue_.BeginSnapshot(std::move(source)); }
  size_t queued_bytes() const override { return queue_.bytes(); }
  absl::Status Close() override;

 private:
  SqliteJournal(SqliteOptions options, std::unique_ptr<StateDirectory> directory);

  // On the journal's thread:
  void Write();
  bool Idle() const;
  absl::Status Check(const JournalQueue::Work& work) const;
  absl::Status WriteAll(JournalQueue::Work work);
  absl::Status WriteRow(std::string& row);
  absl::Status WritePiece(size_t bytes);
  absl::Status Finish();
  absl::Status Said(const absl::Status& status) const;
  void Fail(absl::Status reason);

  const SqliteOptions options_;
  const std::unique_ptr<StateDirectory> directory_;
  std::unique_ptr<SqliteStore> store_;  // the writer's once it runs
  std::unique_ptr<MarkFile> mark_;      // until then
  std::unique_ptr<MarkWriter> marker_;
  Durable durable_;
  Failed failed_;

  JournalQueue queue_;

  // The writer's own.
  SnapshotSource snapshot_;
  Mark told_;  // what the mark is to say
  bool laid_out_ = false;

  std::thread writer_;
};

}  // namespace lockstep::journal

// For tests of the journal on disk: directories, disks that break, and what is in a journal.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/journal/sqlite_journal.h"

namespace lockstep::journal {

// A directory that is gone with this object; in memory where there is such a place.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  std::string path(const std::string& name = "") const {
    return name.empty() ? path_ : path_ + "/" + name;
  }

 private:
  std::string path_;
};

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

// What another owner would find: all entries, or why it does not start.
absl::StatusOr<std::vector<std::string>> ReadJournal(const SqliteOptions& options,
                                                     Replayed* replayed = nullptr);

// A journal, read and started, that can be waited for.
class StartedJournal {
 public:
  // Ends the process when it cannot be read.
  explicit StartedJournal(std::unique_ptr<Journal> journal);
  // Closes it, and so waits for what was appended.
  ~StartedJournal();

  Journal& operator*() { return *journal_; }
  Journal* operator->() { return journal_.get(); }

  uint64_t Append(const std::string& text);
  // Until this entry is durable; false: the journal has failed.
  bool WaitFor(uint64_t entry);
  bool AppendAndWait(const std::string& text) { return WaitFor(Append(text)); }

  // These are the state.
  void Snapshot(std::vector<std::string> entries);

  // What was found in it.
  const std::vector<std::string>& found() const { return found_; }
  const Replayed& replayed() const { return replayed_; }
  uint64_t durable() const;
  std::vector<absl::Status> failures() const;

 private:
  const std::unique_ptr<Journal> journal_;
  std::vector<std::string> found_;
  Replayed replayed_;
  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t durable_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<absl::Status> failures_ ABSL_GUARDED_BY(mutex_);
};

// One on disk.
class OpenJournal : public StartedJournal {
 public:
  // Ends the process when it cannot be opened.
  explicit OpenJournal(const SqliteOptions& options);

  // Until the mark says that all rows are durable.
  void WaitForMark(uint64_t row) const;

 private:
  const std::string directory_;
};

// A disk that breaks when told, under the name `kFaultyDisk` for SqliteOptions::vfs. One at a time.
inline constexpr char kFaultyDisk[] = "lockstep-faulty";
class FaultyDisk {
 public:
  FaultyDisk();
  ~FaultyDisk();

  // From now on every sync, or every write, fails like this: SQLITE_IOERR_FSYNC, SQLITE_FULL, ...
  void FailSyncs(int result) { sync_result_ = result; }
  void FailWrites(int result) { write_result_ = result; }
  // Syncs wait until released; or only those of the database, not of its log.
  void HoldSyncs() { Hold(true, true); }
  void HoldDatabaseSyncs() { Hold(true, false); }
  void ReleaseSyncs() { Hold(false, false); }
  // Only those of the database fail.
  void FailDatabaseSyncs(int result) { database_sync_result_ = result; }
  int syncs() const { return syncs_; }

  // For the functions that SQLite calls.
  int OnSync(bool database);
  int OnWrite() const { return write_result_; }

 private:
  void Hold(bool database, bool log);

  std::atomic<int> sync_result_ = 0;
  std::atomic<int> database_sync_result_ = 0;
  std::atomic<int> write_result_ = 0;
  std::atomic<int> syncs_ = 0;
  Mutex mutex_;
  CondVar changed_;
  bool database_held_ ABSL_GUARDED_BY(mutex_) = false;
  bool log_held_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::journal

// SQLite's write-ahead log, kept so that a commit costs one sync of blocks that are there already.
//
// - It is laid out ahead: zeros behind its end, which SQLite reads as no frames. A sync of blocks
//   that the file had before is much quicker than one by which it grows.
// - It is carried over into the database by a connection and a thread of its own, beside commits.
//   Only what they wrote meanwhile is carried over between two of them; then the log begins anew,
//   in the same blocks.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/journal/sqlite_database.h"

namespace lockstep::journal {

// Threads: one at a time, that of `database`. Bounds: the log is at most four times `pages` long,
// and one commit more.
class WriteAheadLog {
 public:
  // Of the database, which must stay. From `pages` on it is carried over.
  WriteAheadLog(Database& database, std::string vfs, int pages);
  ~WriteAheadLog();
  WriteAheadLog(const WriteAheadLog&) = delete;
  WriteAheadLog& operator=(const WriteAheadLog&) = delete;

  // Between two transactions: carries over what is due. Waits for a disk only when there is little
  // left to do, or when carrying over falls far behind.
  absl::Status CarryOverIfDue();
  // Everything, now, and the log is empty.
  absl::Status Empty();

  // Between two transactions, while there is nothing else to do: lays out some more. False: it is
  // done. That it cannot be done (a full disk) is no error: commits find out what matters.
  bool LayOutSome();

 private:
  absl::Status CarryOver();
  // On a thread of its own: how many pages of the log are in the database and synced.
  absl::StatusOr<int> CarryOverBeside();
  bool carrying() const;
  absl::Status EndCarrying();

  Database& database_;
  const std::string vfs_;
  const int pages_;
  bool laid_out_ = false;

  int pages_before_ = 0;  // in the log after the commit before
  int carried_ = 0;       // of them in the database, at least
  int beginnings_ = 0;    // of the log, anew
  std::future<absl::StatusOr<int>> carrier_;
  int carriers_beginning_ = 0;                   // which log it was that it carries over
  std::unique_ptr<Database> carriers_database_;  // the carrier's own
};

}  // namespace lockstep::journal

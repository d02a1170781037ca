// What a new snapshot has made superfluous: rows that it stands for, and pieces of older ones.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/journal/sqlite_database.h"
#include "lockstep/platform/journal/stored_state.h"

namespace lockstep::journal {

// Deletes them a little at a time, beside what is written, so that no commit takes long for it.
//
// Threads: thread-compatible.
class Leftovers {
 public:
  // An error: the database cannot be used.
  static absl::StatusOr<Leftovers> Of(Database& database);

  // There may be some.
  void Expect() { any_ = true; }
  bool any() const { return any_; }
  // Deletes about so many bytes of what `snapshot` has made superfluous, and not many rows. Within
  // a transaction.
  absl::Status Delete(const StoredSnapshot& snapshot, uint64_t bytes);

 private:
  // Finds the rows of one table up to a number, and deletes them.
  struct Table {
    std::unique_ptr<Statement> look;
    std::unique_ptr<Statement> remove;

    // Up to so many bytes of the rows whose number is at most `through`. Whether there were some.
    absl::StatusOr<bool> DeleteSome(int64_t through, uint64_t bytes);
  };

  Table rows_;
  Table pieces_;
  bool any_ = false;
};

}  // namespace lockstep::journal

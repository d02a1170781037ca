// What the data service may keep within the server's account of memory.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "lockstep/data/dispatch/events.h"
#include "lockstep/data/dispatch/records.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/server/data_memory.h"

namespace lockstep::server {

// What there is beside the records: of a worker that is known, of an open request, and in bytes of
// requests and views.
struct DataUse {
  size_t workers = 0;
  size_t calls = 0;
  size_t bytes = 0;
};

// Counts what is kept, and refuses by name what the account has no room for (reason "memory_max").
// A worker or consumer that comes back is no new work: it may use the account's reserve.
//
// Threads: loop-confined. Ownership: the account must outlive it. Bounds: the account's.
class DataBudget {
 public:
  explicit DataBudget(runtime::MemoryAccount& memory);

  // Each of these: OK; or why there is no room for what would be kept.
  absl::Status CheckRoom(size_t bytes, bool in_journal) const;
  absl::Status CheckRoom(const dispatch::OpenIteration& request, bool in_journal) const;
  absl::Status CheckRoom(const dispatch::WorkerPoll& request, bool is_known, bool in_journal) const;

  // The dispatcher keeps, or has dropped, something.
  void Count(const dispatch::Record& record) { kept_.Count(record); }
  // It has dropped everything.
  void Clear() { kept_ = {}; }
  // Says to the account what there is now.
  void Set(const DataUse& use, bool in_journal);

 private:
  absl::Status Refusal(size_t bytes) const;

  runtime::MemoryAccount& memory_;
  DataMemory kept_;
  runtime::MemoryShare share_;             // datasets, and what is asked of them
  runtime::MemoryShare iterations_share_;  // with their consumers, and the workers
};

}  // namespace lockstep::server

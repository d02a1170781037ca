// What is written down of one job's stores.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "lockstep/server/commit_queue.h"
#include "lockstep/stock/tcpstore/records.h"

namespace lockstep::server {

// Makes entries of the server's journal of a job's records.
//
// Threads: loop-confined, but everything may be called while the loop does not run. Bounds: the
// queue's.
class StoreJournal {
 public:
  // With so much waiting for the disk, of all that the server writes, it is behind.
  static constexpr size_t kQueuedBytesMax = size_t{64} << 20;

  // `commits` outlives it.
  StoreJournal(CommitQueue& commits, std::string job) : commits_(commits), job_(std::move(job)) {}

  // Nothing is written down any more: the job is being deleted.
  void Forget() { keeps_ = false; }
  // Whether anything is written: a server with a journal, and a job that is not being deleted.
  bool writes() const { return keeps_ && commits_.keeps(); }
  // Even what changes nothing waits; see CommitQueue.
  bool confirms() const { return commits_.confirms(); }
  // More commands are not to be taken for now.
  bool behind() const { return commits_.queued_bytes() >= kQueuedBytesMax; }

  // Encoded in their order, with the time of now, for `Commit`.
  std::vector<std::string> EntriesOf(absl::Span<const tcpstore::Record> records) const;
  // Nobody waits for these. Does nothing while nothing is written.
  void Write(absl::Span<const tcpstore::Record> records);
  // `release` runs once `entries` and all that was handed in before are durable; without entries,
  // once the latter is.
  void Commit(std::vector<std::string> entries, CommitQueue::Release release);

 private:
  CommitQueue& commits_;
  const std::string job_;
  bool keeps_ = true;
};

}  // namespace lockstep::server

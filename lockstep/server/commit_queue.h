// The one place where what depends on a change waits until that change is durable: replies, pushes,
// lines of the log.
//
// Whoever hands in a change gets told when it is durable, in the order of handing in. What comes
// without a change of its own waits only for what was handed in before it, since it may tell of
// that.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/platform/journal/journal.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/memory_account.h"
#include "lockstep/server/release_queue.h"
#include "lockstep/server/stall_watch.h"

namespace lockstep::server {

// Threads: loop-confined, but everything may be called while the loop does not run. Ownership: the
// loop must outlive it. Bounds: the journal's.
class CommitQueue {
 public:
  using Release = ReleaseQueue::Release;
  using Failed = std::function<void(absl::Status reason)>;
  using Snapshot = std::function<journal::SnapshotSource()>;

  // What waits is in `memory`, which outlives it.
  explicit CommitQueue(runtime::Loop& loop, runtime::MemoryAccount* memory = nullptr);
  ~CommitQueue();
  CommitQueue(const CommitQueue&) = delete;
  CommitQueue& operator=(const CommitQueue&) = delete;

  // From now on changes are kept. Without a journal nothing is, and nobody waits. `failed` is
  // called once, on the loop: with ABORTED another server goes on in this one's place, and nothing
  // that waits is released any more. `snapshot` when the journal has grown long. Returns the
  // journal's error when it cannot start.
  absl::Status Keep(std::unique_ptr<journal::Journal> journal, Failed failed, Snapshot snapshot);
  bool keeps() const { return journal_ != nullptr; }
  // Even what changes nothing has to wait, until it is known that no other server writes.
  bool confirms() const { return keeps() && journal_->confirms(); }
  // Of the journal: which of several servers' it is; 0: one server's alone.
  uint64_t epoch() const { return keeps() ? journal_->epoch() : 0; }

  // Sequences of the newest change handed in, and of the newest that is durable.
  uint64_t newest() const { return last_entry_; }
  uint64_t durable() const { return released_; }

  // What waits for the disk, in bytes.
  size_t queued_bytes() const { return held_.bytes(); }

  // Nothing is held, so that what has no change of its own may go at once.
  bool idle() const { return held_.empty() && failure_.ok() && !confirms(); }

  // `entry` was begun with journal::NewEntry; `release` runs on the loop, from here when nothing is
  // kept.
  void Commit(std::string entry, Release release);
  // The same for entries that are kept together.
  void Commit(std::vector<std::string> entries, Release release);
  // After everything that was handed in before; from here when that is nothing. Where another
  // server may write in this one's place, after it is known that none did until now.
  void Follow(Release release);

  // Waits for what was handed in. Not on a running loop. Returns why the journal failed.
  absl::Status Close();

 private:
  // Nothing is durable any more.
  void Refuse(Release release);
  // What is durable with `entry`, which has so many bytes.
  void Hold(uint64_t entry, size_t bytes, Release release);
  void Announce(uint64_t through);  // on the journal's thread
  void ReleaseThrough(uint64_t through);
  void Fail(absl::Status reason);
  void BeginSnapshotIfDue();

  runtime::Loop& loop_;
  std::unique_ptr<journal::Journal> journal_;
  Failed failed_;
  Snapshot snapshot_;
  ReleaseQueue held_;
  uint64_t last_entry_ = 0;
  uint64_t released_ = 0;
  absl::Status failure_;
  StallWatch stall_;

  // The journal's thread and the loop share these alone.
  std::atomic<uint64_t> durable_ = 0;
  std::atomic<bool> announced_ = false;
};

}  // namespace lockstep::server

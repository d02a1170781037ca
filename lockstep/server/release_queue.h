// What waits for the journal, in the order of handing in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/functional/any_invocable.h"
#include "lockstep/platform/runtime/memory_account.h"

namespace lockstep::server {

// Each release waits for an entry of the journal. Entries never decrease from front to back, so the
// front is always the first that may go.
//
// Threads: thread-compatible. Bounds: the caller looks at `bytes()`, which the memory's account is
// told, too.
class ReleaseQueue {
 public:
  // `durable` is false when the journal has failed: then nobody knows whether the change was kept,
  // and nothing may be told that depends on it.
  using Release = absl::AnyInvocable<void(bool durable)>;

  // `memory` outlives it; null: nobody counts.
  explicit ReleaseQueue(runtime::MemoryAccount* memory);

  // `release` waits for `entry`, of which `bytes` wait for the disk: 0 when an earlier release has
  // counted them.
  void Push(uint64_t entry, size_t bytes, Release release);

  // Whether the front waits for no entry behind `through`. False: nothing waits.
  bool MayGo(uint64_t through) const { return !held_.empty() && held_.front().entry <= through; }
  // Takes the front out, which must be there, and counts it out. Call what it returns afterwards:
  // it may push more.
  Release Pop();

  bool empty() const { return held_.empty(); }
  size_t size() const { return held_.size(); }
  // Of the entries that wait for the disk.
  size_t bytes() const { return bytes_; }

 private:
  struct Held {
    uint64_t entry;  // durable through this one: may go
    size_t bytes;    // of its entry
    Release release;
  };
  void Account();

  std::deque<Held> held_;
  size_t bytes_ = 0;  // of all in `held_`
  runtime::MemoryShare share_;
};

}  // namespace lockstep::server

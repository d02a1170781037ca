// The inside of the arena, which its blocks share with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/transport/memory_segment.h"
#include "lockstep/rendezvous/transport/page_runs.h"
#include "lockstep/rendezvous/transport/slab_table.h"

namespace lockstep::transport::internal {

// Where blocks come from: large ones are runs of a segment, small ones are cut from slabs. Segments
// are made when there is no room, and given back to the system when they are free and too much is.
//
// Owned by the arena and by every block. Threads: thread-safe.
class ArenaState : public std::enable_shared_from_this<ArenaState> {
 public:
  explicit ArenaState(const ArenaOptions& options);

  // RESOURCE_EXHAUSTED: over `bytes_max` or `segments_max`, or the system has no memory.
  absl::StatusOr<std::shared_ptr<Block>> Allocate(uint64_t bytes);
  // What a block had: `slab` is null when it had pages of its own.
  void Free(const Place& place, uint64_t capacity, Slab* slab);

  std::vector<SegmentSize> segments() const;
  uint64_t segments_removed() const { return segments_removed_.load(std::memory_order_relaxed); }
  // NOT_FOUND: it was given back. FAILED_PRECONDITION: other processes cannot see it.
  absl::StatusOr<runtime::UniqueFd> DescriptorOf(uint32_t segment) const;
  ArenaStats stats() const;

 private:
  struct Segment {
    Segment(std::unique_ptr<MemorySegment> memory_, uint64_t bytes)
        : memory(std::move(memory_)), runs(bytes) {}
    std::unique_ptr<MemorySegment> memory;
    PageRuns runs;
    // All below was taken from the system. Runs begin at the lowest place that fits, so that what
    // is above was never given out.
    uint64_t populated = 0;
    // The system had not enough once, so that `populated` is not to be relied on.
    bool has_holes = false;
    // When the last run of it came back, by `last_freed_`.
    uint64_t freed = 0;
  };
  // Memory to be unmapped when the mutex is free again: that takes long.
  using Removed = std::vector<std::unique_ptr<MemorySegment>>;

  absl::StatusOr<Slab*> AddSlab(uint64_t block_bytes, Removed& removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::StatusOr<Run> TakeRun(uint64_t bytes, Removed& removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveRun(const Run& run, Removed& removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveRunUnpopulated(const Run& run, Removed& removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What of a run that was just taken the system has yet to give; from here on it counts as given.
  Run MarkPopulated(const Run& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Segment*> AddSegment(uint64_t bytes_min, Removed& removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes out segments without blocks until no more than this much is free, or there are none.
  void RemoveFree(uint64_t bytes_free_max, Removed& removed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveSegment(std::map<uint32_t, Segment>::iterator at, Removed& removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::StatusOr<std::shared_ptr<Block>> AllocateSmall(uint64_t bytes);
  absl::StatusOr<std::shared_ptr<Block>> AllocateLarge(uint64_t bytes);
  std::shared_ptr<Block> MakeBlock(std::byte* data, const Place& place, uint64_t capacity,
                                   Slab* slab) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // One count for all blocks: it goes round after 2^32 of them, and then the memory that is given
  // out would have to be the same as exactly that many blocks ago to be taken for it.
  uint32_t NextGeneration() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ArenaOptions options_;
  mutable Mutex mutex_;
  std::map<uint32_t, Segment> segments_ ABSL_GUARDED_BY(mutex_);
  uint32_t last_segment_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_freed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<uint64_t> segments_removed_{0};
  uint64_t bytes_reserved_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_free_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_in_use_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t blocks_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  SlabTable slabs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::transport::internal

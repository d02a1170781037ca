// Memory for values that other processes on this host can read where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/unique_fd.h"
#include "lockstep/rendezvous/transport/place.h"
#include "lockstep/rendezvous/value.h"

namespace lockstep::transport {

namespace internal {
class ArenaState;
struct Slab;
}  // namespace internal

struct ArenaOptions {
  // Each further segment is twice as long, up to `segment_bytes_max`; a larger block gets a segment
  // of its own.
  uint64_t first_segment_bytes = uint64_t{64} << 20;
  uint64_t segment_bytes_max = uint64_t{256} << 20;
  // Of all segments together: `arena_bytes_max`.
  uint64_t bytes_max = uint64_t{8} << 30;
  // Each costs a descriptor here, and a mapping in every peer: `arena_segments_max`.
  size_t segments_max = 1024;
  // Up to here blocks of one size share a slab; larger ones get pages of their own.
  uint64_t small_block_bytes_max = uint64_t{256} << 10;
  // Free memory that stays ours: taking it from the system anew costs about 1 ms per MiB. Above,
  // segments without any block go back: `arena_kept_free_bytes_max`.
  uint64_t kept_free_bytes_max = uint64_t{256} << 20;
};

// What `Arena::Allocate` gave out: the block is free again when this goes, on whichever thread.
// Keeps the arena's memory alive.
class Block final : public rendezvous::Memory {
 public:
  ~Block() override;

  // For whoever makes the value; nobody writes any more once it was sent.
  std::byte* mutable_data() const { return data_; }
  const Place& place() const { return place_; }

 private:
  friend class internal::ArenaState;
  friend class Arena;
  Block(std::byte* data, const Place& place, uint64_t capacity, internal::Slab* slab,
        std::shared_ptr<internal::ArenaState> arena);

  std::byte* const data_;
  const Place place_;
  const uint64_t capacity_;
  internal::Slab* const slab_;  // null: pages of its own
  const std::shared_ptr<internal::ArenaState> arena_;
};

struct SegmentSize {
  uint32_t id = 0;
  uint64_t bytes = 0;
};

struct ArenaStats {
  uint64_t bytes_reserved = 0;  // in segments, whether touched or not
  uint64_t bytes_in_use = 0;    // in blocks, rounded up to their sizes
  uint64_t bytes_free = 0;      // taken from the system, in no block or slab
  size_t blocks = 0;
  size_t segments = 0;
};

// Owns segments, and gives out blocks of them: of a slab of equal blocks when small, of pages of
// their own otherwise. What is known of blocks stands in private memory, where no peer can touch
// it. Blocks may outlive the arena. Bounds: `arena_bytes_max`, `arena_segments_max`. Threads:
// thread-safe, by one mutex that is never held while the system gives out large memory.
class Arena {
 public:
  explicit Arena(const ArenaOptions& options);

  // Not zeroed: what it holds is of an earlier value of this process. Aligned to 64 bytes, from
  // 4 KiB on to a page. Taken from the system already, so that writing it neither faults nor fails.
  absl::StatusOr<std::shared_ptr<Block>> Allocate(uint64_t bytes);

  // In ascending order of ids, which are never used again.
  std::vector<SegmentSize> segments() const;
  // How many segments went back to the system. When this has grown, peers are to be told which ids
  // are not in `segments()` any more, for the memory stays in use until they have unmapped it too.
  uint64_t segments_removed() const;
  // For passing to a peer; NOT_FOUND when the segment is gone.
  absl::StatusOr<runtime::UniqueFd> DescriptorOf(uint32_t segment) const;
  ArenaStats stats() const;
  // Whether the block is one of this arena's.
  bool Made(const Block& block) const { return block.arena_ == state_; }

 private:
  std::shared_ptr<internal::ArenaState> state_;
};

}  // namespace lockstep::transport

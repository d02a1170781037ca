// The memory of one peer as it is seen here: for reading, and only where the peer's word holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/unique_fd.h"
#include "lockstep/rendezvous/transport/place.h"
#include "lockstep/rendezvous/value.h"

namespace lockstep::transport {

namespace internal {
class PeerSegment;
}  // namespace internal

struct PeerArenaOptions {
  size_t segments_max = 1024;              // `peer_segments_max`
  uint64_t bytes_max = uint64_t{1} << 40;  // of all segments: `peer_arena_bytes_max`
  size_t views_max = size_t{1} << 20;      // of each segment: `peer_views_max`
};

// Maps each segment once. What the peer says is checked: a wrong word of it is INVALID_ARGUMENT and
// says what was wrong, and changes nothing here. That the peer does not write what it lent cannot
// be checked; who must be sure copies first.
// Threads: thread-safe. Views may outlive this, and keep their segment mapped.
class PeerArena {
 public:
  using OnGone = absl::AnyInvocable<void() &&>;

  explicit PeerArena(const PeerArenaOptions& options) : options_(options) {}

  // INVALID_ARGUMENT: the peer sent this id before, or `fd` is no such memory. RESOURCE_EXHAUSTED:
  // over `peer_segments_max` or `peer_arena_bytes_max`. `fd` is closed in any case.
  absl::Status AddSegment(uint32_t id, runtime::UniqueFd fd, uint64_t bytes);
  // The peer has given it up. It stays mapped until the last view of it has gone.
  absl::Status RemoveSegment(uint32_t id);

  // The bytes that lie there, which the peer leaves as they are until the lease ends: with
  // `on_gone`, called once, on whichever thread drops the last reference. When this fails, it is
  // never called. Several views of one block may live at a time.
  absl::StatusOr<rendezvous::MemoryPtr> View(const Place& place, OnGone on_gone);

  // Those mapped for the peer, without the removed ones that views keep.
  size_t segments() const;
  // Whether it was added and not removed: `View` of a place in it may succeed.
  bool Has(uint32_t segment) const;

 private:
  const PeerArenaOptions options_;
  mutable Mutex mutex_;
  absl::flat_hash_map<uint32_t, std::shared_ptr<internal::PeerSegment>> segments_
      ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::transport

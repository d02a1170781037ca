// The other end's memory, as this end sees it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/unique_fd.h"
#include "lockstep/rendezvous/transport/peer_arena.h"
#include "lockstep/rendezvous/transport/place.h"
#include "lockstep/rendezvous/value.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::transport {

// The segments that the other end has passed. One that this end cannot map, for want of descriptors
// or room, is no failure of the stream: what lies there is fetched. Threads: thread-compatible.
class PeerMemory {
 public:
  PeerMemory() : arena_(PeerArenaOptions()) {}

  // RESOURCE_EXHAUSTED: it cannot be mapped here. INVALID_ARGUMENT and others: the other end lies.
  absl::Status Take(const wire::native::SegmentNotice& notice, std::vector<runtime::UniqueFd> fds) {
    if (notice.removed) {
      const bool unseen = !why_unseen_.ok() && !arena_.Has(notice.segment);
      return unseen ? absl::OkStatus() : arena_.RemoveSegment(notice.segment);
    }
    if (fds.size() != 1) {
      return absl::InvalidArgumentError("a segment of memory came without its descriptor");
    }
    return arena_.AddSegment(notice.segment, std::move(fds[0]), notice.bytes);
  }
  // A segment could not be mapped, or not even received.
  void SetUnseen(absl::Status why) { why_unseen_ = std::move(why); }

  // OK; or why this segment, or one before it, could not be mapped.
  absl::Status CanSee(uint32_t segment) const {
    return arena_.Has(segment) ? absl::OkStatus() : why_unseen_;
  }
  // As of PeerArena.
  absl::StatusOr<rendezvous::MemoryPtr> View(const Place& place, PeerArena::OnGone on_gone) {
    return arena_.View(place, std::move(on_gone));
  }

 private:
  PeerArena arena_;
  absl::Status why_unseen_;
};

}  // namespace lockstep::transport

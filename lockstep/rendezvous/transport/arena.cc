#include "lockstep/rendezvous/transport/arena.h"

#include <utility>

#include "lockstep/rendezvous/transport/arena_state.h"

namespace lockstep::transport {

Block::Block(std::byte* data, const Place& place, uint64_t capacity, internal::Slab* slab,
             std::shared_ptr<internal::ArenaState> arena)
    : Memory(data, place.bytes),
      data_(data),
      place_(place),
      capacity_(capacity),
      slab_(slab),
      arena_(std::move(arena)) {}

Block::~Block() { arena_->Free(place_, capacity_, slab_); }

Arena::Arena(const ArenaOptions& options)
    : state_(std::make_shared<internal::ArenaState>(options)) {}

absl::StatusOr<std::shared_ptr<Block>> Arena::Allocate(uint64_t bytes) {
  return state_->Allocate(bytes);
}

std::vector<SegmentSize> Arena::segments() const { return state_->segments(); }

uint64_t Arena::segments_removed() const { return state_->segments_removed(); }

absl::StatusOr<runtime::UniqueFd> Arena::DescriptorOf(uint32_t segment) const {
  return state_->DescriptorOf(segment);
}

ArenaStats Arena::stats() const { return state_->stats(); }

}  // namespace lockstep::transport

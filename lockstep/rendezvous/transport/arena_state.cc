#include "lockstep/rendezvous/transport/arena_state.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/rendezvous/transport/size_classes.h"
#include "lockstep/rendezvous/transport/system_call_error.h"

namespace lockstep::transport::internal {
namespace {

// A slab holds some blocks of a size, so that few are made, and not too many, so that a size of
// which there is one block does not take much.
constexpr uint64_t kBlocksOfSlab = 16;
constexpr uint64_t kSlabBytesMin = uint64_t{64} << 10;
constexpr uint64_t kSlabBytesMax = uint64_t{1} << 20;
static_assert(kSlabBytesMin <= kSlabBytesMax && kSlabBytesMin % kPageBytes == 0);

uint64_t SlabBytes(uint64_t block_bytes) {
  const uint64_t wanted =
      std::clamp(block_bytes * kBlocksOfSlab, kSlabBytesMin, std::max(kSlabBytesMax, block_bytes));
  return RoundUp(wanted, kPageBytes);
}

// What no other process can see can still be fetched from here.
absl::StatusOr<std::unique_ptr<MemorySegment>> MakeMemory(uint64_t bytes) {
  auto shared = MemorySegment::Create(bytes);
  return shared.ok() ? std::move(shared) : MemorySegment::CreatePrivate(bytes);
}

ArenaOptions Bounded(ArenaOptions options) {
  // So that rounding up never goes round.
  options.bytes_max = std::min(options.bytes_max, uint64_t{1} << 62);
  return options;
}

}  // namespace

ArenaState::ArenaState(const ArenaOptions& options) : options_(Bounded(options)) {}

absl::StatusOr<std::shared_ptr<Block>> ArenaState::Allocate(uint64_t bytes) {
  if (bytes > options_.bytes_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a value of ", bytes, " bytes is more than shared memory may hold at all (",
                     options_.bytes_max, " bytes: arena_bytes_max)"));
  }
  const bool small = bytes <= options_.small_block_bytes_max;
  return small ? AllocateSmall(bytes) : AllocateLarge(bytes);
}

absl::StatusOr<std::shared_ptr<Block>> ArenaState::AllocateSmall(uint64_t bytes) {
  Removed removed;
  const uint64_t block_bytes = ClassBytes(bytes);
  LOCKSTEP_DCHECK(block_bytes >= bytes);
  const MutexLock lock(mutex_);
  Slab* slab = slabs_.WithRoom(block_bytes);
  if (slab == nullptr) {
    const auto added = AddSlab(block_bytes, removed);
    if (!added.ok()) return added.status();
    slab = *added;
  }
  const uint64_t offset = slabs_.TakeBlock(slab) * block_bytes;
  const Place place{slab->run.segment, slab->run.offset + offset, bytes, NextGeneration()};
  return MakeBlock(slab->data + offset, place, block_bytes, slab);
}

absl::StatusOr<std::shared_ptr<Block>> ArenaState::AllocateLarge(uint64_t bytes) {
  Removed removed;
  Run run, fresh;
  MemorySegment* memory = nullptr;  // stays: the run is ours
  {
    const MutexLock lock(mutex_);
    const auto taken = TakeRun(RoundUp(bytes, kPageBytes), removed);
    if (!taken.ok()) return taken.status();
    run = *taken;
    fresh = MarkPopulated(run);
    memory = segments_.at(run.segment).memory.get();
  }
  absl::Status populated;
  if (fresh.bytes > 0) populated = memory->Populate(fresh.offset, fresh.bytes);
  const MutexLock lock(mutex_);
  if (!populated.ok()) {
    GiveRunUnpopulated(run, removed);
    return populated;
  }
  const Place place{run.segment, run.offset, bytes, NextGeneration()};
  return MakeBlock(memory->mutable_data() + run.offset, place, run.bytes, nullptr);
}

std::shared_ptr<Block> ArenaState::MakeBlock(std::byte* data, const Place& place, uint64_t capacity,
                                             Slab* slab) {
  ++blocks_;
  bytes_in_use_ += capacity;
  return std::shared_ptr<Block>(new Block(data, place, capacity, slab, shared_from_this()));
}

uint32_t ArenaState::NextGeneration() {
  if (++generation_ == 0) ++generation_;
  return generation_;
}

void ArenaState::Free(const Place& place, uint64_t capacity, Slab* slab) {
  Removed removed;
  const MutexLock lock(mutex_);
  LOCKSTEP_DCHECK(blocks_ > 0 && bytes_in_use_ >= capacity);
  --blocks_;
  bytes_in_use_ -= capacity;
  if (slab == nullptr) return GiveRun({place.segment, place.offset, capacity}, removed);
  const auto index = static_cast<uint32_t>((place.offset - slab->run.offset) / slab->block_bytes);
  if (slabs_.GiveBlock(slab, index)) GiveRun(slabs_.Remove(slab), removed);
}

absl::StatusOr<Slab*> ArenaState::AddSlab(uint64_t block_bytes, Removed& removed) {
  const auto run = TakeRun(SlabBytes(block_bytes), removed);
  if (!run.ok()) return run.status();
  MemorySegment& memory = *segments_.at(run->segment).memory;
  const Run fresh = MarkPopulated(*run);
  const absl::Status populated = memory.Populate(fresh.offset, fresh.bytes);
  if (!populated.ok()) {
    GiveRunUnpopulated(*run, removed);
    return populated;
  }
  return slabs_.Add(*run, memory.mutable_data() + run->offset, block_bytes);
}

absl::StatusOr<Run> ArenaState::TakeRun(uint64_t bytes, Removed& removed) {
  for (auto& [id, segment] : segments_) {
    if (const auto offset = segment.runs.Take(bytes)) return Run{id, *offset, bytes};
  }
  const auto segment = AddSegment(bytes, removed);
  if (!segment.ok()) return segment.status();
  return Run{last_segment_, (*segment)->runs.Take(bytes).value(), bytes};
}

void ArenaState::GiveRun(const Run& run, Removed& removed) {
  const auto at = segments_.find(run.segment);
  Segment& segment = at->second;
  segment.runs.Give(run.offset, run.bytes);
  bytes_free_ += run.bytes;
  if (segment.runs.all_free()) {
    segment.freed = ++last_freed_;
    // What cannot be kept anyway does not push out the others first.
    if (segment.populated > options_.kept_free_bytes_max) RemoveSegment(at, removed);
  }
  RemoveFree(options_.kept_free_bytes_max, removed);
}

void ArenaState::GiveRunUnpopulated(const Run& run, Removed& removed) {
  segments_.at(run.segment).has_holes = true;
  GiveRun(run, removed);
}

Run ArenaState::MarkPopulated(const Run& run) {
  Segment& segment = segments_.at(run.segment);
  const uint64_t end = run.offset + run.bytes;
  const uint64_t begin = std::clamp(segment.populated, run.offset, end);
  LOCKSTEP_DCHECK(bytes_free_ >= begin - run.offset);
  bytes_free_ -= begin - run.offset;
  segment.populated = std::max(segment.populated, end);
  return segment.has_holes ? run : Run{run.segment, begin, end - begin};
}

absl::StatusOr<ArenaState::Segment*> ArenaState::AddSegment(uint64_t bytes_min, Removed& removed) {
  const auto is_too_much = [&] {
    mutex_.AssertHeld();
    return bytes_min > options_.bytes_max - std::min(options_.bytes_max, bytes_reserved_);
  };
  if (is_too_much() || segments_.size() >= options_.segments_max) RemoveFree(0, removed);
  if (is_too_much()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "shared memory has no ", bytes_min, " bytes free in one piece: ", bytes_in_use_,
        " bytes are in use by ", blocks_, " values, ", bytes_reserved_, " of ", options_.bytes_max,
        " are reserved (arena_bytes_max); receive or drop values first"));
  }
  if (segments_.size() >= options_.segments_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("shared memory is in ", segments_.size(),
                     " segments already (arena_segments_max); receive or drop values first"));
  }
  uint64_t bytes = options_.first_segment_bytes;
  for (size_t i = 0; i < segments_.size() && bytes < options_.segment_bytes_max; ++i) bytes *= 2;
  bytes = std::min({bytes, options_.segment_bytes_max, options_.bytes_max - bytes_reserved_});
  bytes = std::max(bytes / kPageBytes * kPageBytes, bytes_min);
  auto memory = MakeMemory(bytes);
  if (!memory.ok() && bytes > bytes_min) memory = MakeMemory(bytes = bytes_min);
  if (!memory.ok()) return memory.status();
  bytes_reserved_ += bytes;
  LOCKSTEP_DCHECK(bytes_reserved_ <= options_.bytes_max);
  return &segments_.try_emplace(++last_segment_, *std::move(memory), bytes).first->second;
}

void ArenaState::RemoveFree(uint64_t bytes_free_max, Removed& removed) {
  while (bytes_free_ > bytes_free_max) {
    // The one that was not used for longest; a size that is used again and again stays.
    auto oldest = segments_.end();
    for (auto at = segments_.begin(); at != segments_.end(); ++at) {
      if (!at->second.runs.all_free()) continue;
      if (oldest == segments_.end() || at->second.freed < oldest->second.freed) oldest = at;
    }
    if (oldest == segments_.end()) return;
    RemoveSegment(oldest, removed);
  }
}

void ArenaState::RemoveSegment(std::map<uint32_t, Segment>::iterator at, Removed& removed) {
  Segment& segment = at->second;
  // All of it is free, so what is populated counts as free, and nothing of it is in use.
  LOCKSTEP_DCHECK(segment.runs.all_free());
  LOCKSTEP_DCHECK(bytes_reserved_ >= segment.memory->bytes() && bytes_free_ >= segment.populated);
  bytes_reserved_ -= segment.memory->bytes();
  bytes_free_ -= segment.populated;
  removed.push_back(std::move(segment.memory));
  segments_.erase(at);
  segments_removed_.fetch_add(1, std::memory_order_relaxed);
}

std::vector<SegmentSize> ArenaState::segments() const {
  const MutexLock lock(mutex_);
  std::vector<SegmentSize> sizes;
  sizes.reserve(segments_.size());
  for (const auto& [id, segment] : segments_) sizes.push_back({id, segment.memory->bytes()});
  return sizes;
}

absl::StatusOr<runtime::UniqueFd> ArenaState::DescriptorOf(uint32_t segment) const {
  const MutexLock lock(mutex_);
  const auto found = segments_.find(segment);
  if (found == segments_.end()) {
    return absl::NotFoundError(absl::StrCat("segment ", segment, " of shared memory is gone"));
  }
  const int shared = found->second.memory->fd();
  if (shared < 0) {
    return absl::FailedPreconditionError(
        "the system gave no memory that other processes can see (descriptors, seccomp, or limits)");
  }
  runtime::UniqueFd fd(::fcntl(shared, F_DUPFD_CLOEXEC, 0));
  if (!fd.valid()) return SystemCallError("fcntl(F_DUPFD_CLOEXEC)", errno, "raise RLIMIT_NOFILE");
  return fd;
}

ArenaStats ArenaState::stats() const {
  const MutexLock lock(mutex_);
  return {bytes_reserved_, bytes_in_use_, bytes_free_, blocks_, segments_.size()};
}

}  // namespace lockstep::transport::internal

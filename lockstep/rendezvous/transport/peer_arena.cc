#include "lockstep/rendezvous/transport/peer_arena.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/rendezvous/transport/memory_segment.h"

namespace lockstep::transport {
namespace internal {

// One segment, and which blocks of it are lent to us. Threads: thread-safe.
class PeerSegment {
 public:
  PeerSegment(std::unique_ptr<MemorySegment> memory, size_t views_max)
      : memory_(std::move(memory)), views_max_(views_max) {}

  const std::byte* data() const { return memory_->data(); }
  uint64_t bytes() const { return memory_->bytes(); }

  absl::Status Lend(const Place& place);
  void Return(const Place& place);

 private:
  struct Lent {
    uint64_t end = 0;
    uint32_t generation = 0;
    size_t views = 0;
  };

  absl::Status CheckBounds(const Place& place) const;
  // That what is lent already stays as it is lent.
  absl::Status CheckLent(const Place& place) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<MemorySegment> memory_;
  const size_t views_max_;
  Mutex mutex_;
  // By where the block begins; never two that overlap.
  std::map<uint64_t, Lent> lent_ ABSL_GUARDED_BY(mutex_);
  size_t views_ ABSL_GUARDED_BY(mutex_) = 0;
};

namespace {

absl::Status Lie(const Place& place, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the peer named ", place.bytes, " bytes at ",
                                                 place.offset, " of its segment ", place.segment,
                                                 ", generation ", place.generation, ": ", what));
}

absl::Status LieAboutLent(const Place& place, uint64_t offset, uint64_t end, uint32_t generation) {
  return Lie(place, absl::StrCat("bytes ", offset, " to ", end, " are still lent to us as ",
                                 "generation ", generation));
}

}  // namespace

absl::Status PeerSegment::CheckBounds(const Place& place) const {
  if (place.offset <= bytes() && place.bytes <= bytes() - place.offset) return absl::OkStatus();
  return Lie(place, absl::StrCat("the segment has ", bytes(), " bytes"));
}

absl::Status PeerSegment::CheckLent(const Place& place) const {
  const auto next = lent_.lower_bound(place.offset);
  if (next != lent_.end()) {
    const auto& [offset, lent] = *next;
    const bool same = offset == place.offset && lent.generation == place.generation;
    const bool apart = offset > place.offset && offset - place.offset >= place.bytes;
    if (!same && !apart) return LieAboutLent(place, offset, lent.end, lent.generation);
    // A longer view of the same block still must not reach into the next one.
    const auto after = same ? std::next(next) : lent_.end();
    if (after != lent_.end() && after->first - place.offset < place.bytes) {
      return LieAboutLent(place, after->first, after->second.end, after->second.generation);
    }
  }
  if (next == lent_.begin()) return absl::OkStatus();
  const auto& [offset, lent] = *std::prev(next);
  if (lent.end <= place.offset) return absl::OkStatus();
  return LieAboutLent(place, offset, lent.end, lent.generation);
}

absl::Status PeerSegment::Lend(const Place& place) {
  if (absl::Status status = CheckBounds(place); !status.ok()) return status;
  const MutexLock lock(mutex_);
  if (views_ >= views_max_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(views_,
                     " values of one segment of the peer's memory are held here already "
                     "(peer_views_max); drop some first"));
  }
  if (absl::Status status = CheckLent(place); !status.ok()) return status;
  Lent& lent = lent_[place.offset];
  lent.end = std::max(lent.end, place.offset + place.bytes);
  lent.generation = place.generation;
  ++lent.views;
  ++views_;
  return absl::OkStatus();
}

void PeerSegment::Return(const Place& place) {
  const MutexLock lock(mutex_);
  LOCKSTEP_DCHECK(views_ > 0);
  --views_;
  const auto lent = lent_.find(place.offset);
  LOCKSTEP_DCHECK(lent != lent_.end() && lent->second.views > 0);
  if (--lent->second.views == 0) lent_.erase(lent);
}

namespace {

class PeerView final : public rendezvous::Memory {
 public:
  PeerView(std::shared_ptr<PeerSegment> segment, const Place& place, PeerArena::OnGone on_gone)
      : Memory(segment->data() + place.offset, place.bytes),
        segment_(std::move(segment)),
        place_(place),
        on_gone_(std::move(on_gone)) {}

  ~PeerView() override {
    // A forked child has no part in the loan, and locks that its parent's threads held at the fork
    // stay locked in it for ever.
    if (owner_ != ::getpid()) return;
    // First, so that the peer may lend the block again as soon as it hears.
    segment_->Return(place_);
    if (on_gone_) std::move(on_gone_)();
  }

 private:
  const std::shared_ptr<PeerSegment> segment_;
  const Place place_;
  PeerArena::OnGone on_gone_;
  const pid_t owner_ = ::getpid();
};

}  // namespace
}  // namespace internal

absl::Status PeerArena::AddSegment(uint32_t id, runtime::UniqueFd fd, uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (segments_.contains(id)) {
    return absl::InvalidArgumentError(absl::StrCat("the peer sent its segment ", id, " twice"));
  }
  if (segments_.size() >= options_.segments_max) {
    return absl::ResourceExhaustedError(absl::StrCat("the peer sent more than ", segments_.size(),
                                                     " segments (peer_segments_max)"));
  }
  LOCKSTEP_DCHECK(bytes_ <= options_.bytes_max);
  if (bytes > options_.bytes_max - bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the peer sent ", bytes, " bytes of memory beside the ", bytes_,
        " that are mapped, of at most ", options_.bytes_max, " (peer_arena_bytes_max)"));
  }
  auto memory = MemorySegment::Map(std::move(fd), bytes, MemorySegment::Access::kReadOnly);
  if (!memory.ok()) return memory.status();
  bytes_ += bytes;
  segments_.emplace(
      id, std::make_shared<internal::PeerSegment>(*std::move(memory), options_.views_max));
  return absl::OkStatus();
}

absl::Status PeerArena::RemoveSegment(uint32_t id) {
  // Unmapped when the mutex is free again.
  std::shared_ptr<internal::PeerSegment> removed;
  const MutexLock lock(mutex_);
  const auto found = segments_.find(id);
  if (found == segments_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the peer gave up its segment ", id, ", which it never sent"));
  }
  removed = std::move(found->second);
  LOCKSTEP_DCHECK(bytes_ >= removed->bytes());
  bytes_ -= removed->bytes();
  segments_.erase(found);
  return absl::OkStatus();
}

absl::StatusOr<rendezvous::MemoryPtr> PeerArena::View(const Place& place, OnGone on_gone) {
  std::shared_ptr<internal::PeerSegment> segment;
  {
    const MutexLock lock(mutex_);
    const auto found = segments_.find(place.segment);
    if (found == segments_.end()) return internal::Lie(place, "it sent no such segment");
    segment = found->second;
  }
  if (absl::Status status = segment->Lend(place); !status.ok()) return status;
  return std::make_shared<internal::PeerView>(std::move(segment), place, std::move(on_gone));
}

size_t PeerArena::segments() const {
  const MutexLock lock(mutex_);
  return segments_.size();
}

bool PeerArena::Has(uint32_t segment) const {
  const MutexLock lock(mutex_);
  return segments_.contains(segment);
}

}  // namespace lockstep::transport

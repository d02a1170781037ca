#include "lockstep/server/release_queue.h"

#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::server {
namespace {

// What waits for an entry costs about so much beside it.
constexpr size_t kHeldBytes = 512;

}  // namespace

ReleaseQueue::ReleaseQueue(runtime::MemoryAccount* memory)
    : share_(memory, "the journal", "changes that wait for the disk") {}

void ReleaseQueue::Push(uint64_t entry, size_t bytes, Release release) {
  LOCKSTEP_DCHECK(held_.empty() || held_.back().entry <= entry);
  held_.push_back({.entry = entry, .bytes = bytes, .release = std::move(release)});
  bytes_ += bytes;
  Account();
}

ReleaseQueue::Release ReleaseQueue::Pop() {
  LOCKSTEP_DCHECK(!held_.empty() && bytes_ >= held_.front().bytes);
  Release release = std::move(held_.front().release);
  bytes_ -= held_.front().bytes;
  held_.pop_front();
  Account();
  return release;
}

void ReleaseQueue::Account() {
  LOCKSTEP_DCHECK(!held_.empty() || bytes_ == 0);
  share_.Set(bytes_ + held_.size() * kHeldBytes);
}

}  // namespace lockstep::server

#include "lockstep/rendezvous/transport/page_runs.h"

#include <iterator>

#include "lockstep/base/check.h"

namespace lockstep::transport {

std::optional<uint64_t> PageRuns::Take(uint64_t bytes) {
  LOCKSTEP_DCHECK(bytes > 0);
  for (auto run = free_.begin(); run != free_.end(); ++run) {
    const auto [offset, length] = *run;
    if (length < bytes) continue;
    const auto next = free_.erase(run);
    if (length > bytes) free_.emplace_hint(next, offset + bytes, length - bytes);
    return offset;
  }
  return std::nullopt;
}

void PageRuns::Give(uint64_t offset, uint64_t bytes) {
  LOCKSTEP_DCHECK(bytes > 0);
  const auto next = free_.lower_bound(offset);
  auto run = free_.emplace_hint(next, offset, bytes);
  LOCKSTEP_CHECK(run->second == bytes);
  if (next != free_.end()) {
    LOCKSTEP_CHECK(offset + bytes <= next->first);
    if (offset + bytes == next->first) {
      run->second += next->second;
      free_.erase(next);
    }
  }
  if (run == free_.begin()) return;
  const auto before = std::prev(run);
  LOCKSTEP_CHECK(before->first + before->second <= offset);
  if (before->first + before->second == offset) {
    before->second += run->second;
    free_.erase(run);
  }
}

}  // namespace lockstep::transport

// Which pages of a segment are free. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace lockstep::transport {

// Gives out runs of neighbouring pages, the lowest that fit first, so that what is free gathers at
// the end. Lengths and offsets are in bytes and multiples of a page. Bounds: at most one entry for
// each run that is given out, and one. Threads: thread-compatible.
class PageRuns {
 public:
  explicit PageRuns(uint64_t bytes) : bytes_(bytes) { free_.emplace(0, bytes); }

  // Where the run begins, or nothing when no free run is that long.
  std::optional<uint64_t> Take(uint64_t bytes);
  // What `Take` gave out.
  void Give(uint64_t offset, uint64_t bytes);

  // Nothing is given out.
  bool all_free() const { return !free_.empty() && free_.begin()->second == bytes_; }

 private:
  const uint64_t bytes_;
  std::map<uint64_t, uint64_t> free_;  // offset -> length; never two that touch
};

}  // namespace lockstep::transport

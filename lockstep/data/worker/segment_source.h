// What makes the elements of a dataset's segments, as the cache sees it. Pure interface.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "lockstep/data/engine/element.h"

namespace lockstep::data {

// One run of one segment.
class ElementStream {
 public:
  virtual ~ElementStream() = default;
  // The frame of the next element, good until the next call; nothing: the segment has ended.
  virtual absl::StatusOr<std::optional<std::string_view>> Next() = 0;
};

// A dataset. Each run of a segment gives the same elements.
//
// Threads: thread-safe; a stream is used by one thread at a time.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  // `frames`: where its elements should be born. `stop`: becomes true when nobody wants the
  // elements any more: a call that takes long may end then, with any error. Outlives the stream.
  virtual absl::StatusOr<std::unique_ptr<ElementStream>> Start(
      int64_t segment, engine::Allocator frames, const std::atomic<bool>& stop) const = 0;
};

}  // namespace lockstep::data

// Makes chunks of the elements of one run, which are born in them where that is possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "lockstep/data/engine/element.h"
#include "lockstep/data/worker/stored_chunk.h"
#include "lockstep/rendezvous/transport/arena.h"

namespace lockstep::data {

// A frame that the run has its memory for from `allocator` is written straight into the chunk that
// others will read it in; any other element is copied there. Elements of one chunk need not lie in
// it in their order, and what was born in it and never added stays a gap.
//
// Bounds: the chunk that is being made, and one more with what did not fit into it. Threads:
// thread-compatible. Memory that `allocator` gave out, and the allocator, may outlive this.
class ChunkMaker {
 public:
  // `arena` null, or full: chunks are private memory, and elements are copied there. `other`: for
  // frames that are born in no chunk.
  ChunkMaker(std::shared_ptr<transport::Arena> arena, size_t chunk_bytes, engine::Allocator other);
  ~ChunkMaker();
  ChunkMaker(const ChunkMaker&) = delete;
  ChunkMaker& operator=(const ChunkMaker&) = delete;

  engine::Allocator allocator() const;

  // False: the chunk is full. Then the same element is to be added again after `Finish`.
  bool Add(std::string_view element);
  bool empty() const;
  // The chunk of what was added since the last one, which must be something.
  StoredChunkPtr Finish(const wire::native::ChunkHead& head);

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

// A chunk without elements, which says only that the segment has ended.
StoredChunkPtr EmptyEnd(int64_t segment, int64_t total);

}  // namespace lockstep::data

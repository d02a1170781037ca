// A chunk of a segment that a worker keeps until it was read.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/wire/native/data_chunk.h"

namespace lockstep::data {

// Immutable once it is shared. It lies in memory that others of this host may see, or in that of an
// answer, behind the head of an inline one: then it goes out as it is to whoever reads all of it.
struct StoredChunk {
  std::shared_ptr<const std::string> answer;  // null: it lies in the block
  std::shared_ptr<const transport::Block> block;
  std::string_view chunk;
  wire::native::ChunkView view;

  size_t bytes() const { return chunk.size(); }
  const wire::native::ChunkHead& head() const { return view.head(); }
};

using StoredChunkPtr = std::shared_ptr<const StoredChunk>;

}  // namespace lockstep::data

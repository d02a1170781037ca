// A chunk of a segment that a worker keeps until it was read.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "lockstep/wire/native/data_chunk.h"

namespace lockstep::data {

// Immutable once it is shared. Its memory is that of an answer: the head of an inline one, then the
// chunk; so it goes out as it is to whoever reads all of it.
struct StoredChunk {
  std::shared_ptr<const std::string> answer;
  wire::native::ChunkView view;

  size_t bytes() const { return answer->size(); }
  const wire::native::ChunkHead& head() const { return view.head(); }
};

using StoredChunkPtr = std::shared_ptr<const StoredChunk>;

}  // namespace lockstep::data

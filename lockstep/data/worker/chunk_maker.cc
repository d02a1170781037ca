#include "lockstep/data/worker/chunk_maker.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/wire/native/data_chunk.h"

namespace lockstep::data {
namespace {

using wire::native::ChunkHead;
using wire::native::ChunkView;
using wire::native::ChunkWriter;
using wire::native::kChunkAlignment;

// Where a chunk is written: a block of the arena, or the memory of an answer behind its head.
struct ChunkMemory {
  static ChunkMemory Of(transport::Arena* arena, size_t bytes) {
    if (auto shared = Shared(arena, bytes)) return *std::move(shared);
    return {.answer = std::make_shared<std::string>(kChunkAlignment + bytes, '\0'), .room = bytes};
  }
  // Nothing: there is no arena, or no room in it.
  static std::optional<ChunkMemory> Shared(transport::Arena* arena, size_t bytes) {
    if (arena == nullptr) return std::nullopt;
    auto block = arena->Allocate(bytes);
    if (!block.ok()) return std::nullopt;
    return ChunkMemory{.block = *std::move(block), .room = bytes};
  }
  char* data() const {
    LOCKSTEP_DCHECK((block != nullptr) != (answer != nullptr));
    return block != nullptr ? reinterpret_cast<char*>(block->mutable_data())
                            : answer->data() + kChunkAlignment;
  }

  std::shared_ptr<transport::Block> block;
  std::shared_ptr<std::string> answer;
  size_t room = 0;
};

StoredChunkPtr FinishIn(transport::Arena* arena, ChunkMemory memory, ChunkWriter& writer,
                        const ChunkHead& head) {
  const size_t bytes = writer.Finish(head);
  LOCKSTEP_DCHECK(bytes <= memory.room);
  // One that was flushed early does not keep the memory of a full one.
  if (bytes <= memory.room / 2) {
    ChunkMemory fitting = ChunkMemory::Of(arena, bytes);
    std::memcpy(fitting.data(), memory.data(), bytes);
    memory = std::move(fitting);
  }
  if (memory.answer != nullptr) {
    memory.answer->resize(kChunkAlignment + bytes);
    wire::native::PutInlineHead(*memory.answer);
  }
  const std::string_view chunk(memory.data(), bytes);
  auto view = ChunkView::Parse(chunk);
  LOCKSTEP_CHECK(view.ok());
  return std::make_shared<const StoredChunk>(StoredChunk{.answer = std::move(memory.answer),
                                                         .block = std::move(memory.block),
                                                         .chunk = chunk,
                                                         .view = *view});
}

struct OpenChunk {
  explicit OpenChunk(ChunkMemory in)
      : memory(std::move(in)), writer({memory.data(), memory.room}) {}

  ChunkMemory memory;
  ChunkWriter writer;
};

// A frame's part of a chunk, which it keeps.
class BornMemory final : public engine::Memory {
 public:
  BornMemory(std::span<char> place, std::shared_ptr<transport::Block> block)
      : Memory(reinterpret_cast<std::byte*>(place.data()), place.size()),
        block_(std::move(block)) {}

 private:
  const std::shared_ptr<transport::Block> block_;
};

}  // namespace

struct ChunkMaker::State {
  size_t RoomFor(size_t element_bytes) const {
    return std::max(chunk_bytes, ChunkWriter::BytesFor(element_bytes));
  }

  absl::StatusOr<std::shared_ptr<engine::Memory>> Allocate(uint64_t bytes) {
    LOCKSTEP_DCHECK(current.has_value() || !next.has_value());
    for (std::optional<OpenChunk>* chunk : {&current, &next}) {
      if (!*chunk) {
        auto memory = ChunkMemory::Shared(arena.get(), RoomFor(bytes));
        if (!memory) break;
        chunk->emplace(*std::move(memory));
      }
      // Frames lie on multiples of 64 bytes, and the memory of an answer does not.
      if ((*chunk)->memory.block == nullptr) break;
      if (!(*chunk)->writer.Fits(bytes)) continue;
      return std::make_shared<BornMemory>((*chunk)->writer.Reserve(bytes), (*chunk)->memory.block);
    }
    return other(bytes);
  }

  const std::shared_ptr<transport::Arena> arena;
  const size_t chunk_bytes;
  const engine::Allocator other;
  std::optional<OpenChunk> current;
  std::optional<OpenChunk> next;  // not without `current`
};

ChunkMaker::ChunkMaker(std::shared_ptr<transport::Arena> arena, size_t chunk_bytes,
                       engine::Allocator other)
    : state_(new State{
          .arena = std::move(arena), .chunk_bytes = chunk_bytes, .other = std::move(other)}) {}
ChunkMaker::~ChunkMaker() = default;

engine::Allocator ChunkMaker::allocator() const {
  return [state = state_](uint64_t bytes) { return state->Allocate(bytes); };
}

bool ChunkMaker::empty() const { return !state_->current || state_->current->writer.count() == 0; }

bool ChunkMaker::Add(std::string_view element) {
  State& state = *state_;
  LOCKSTEP_DCHECK(state.current.has_value() || !state.next.has_value());
  if (state.next && state.next->writer.Holds(element)) {
    if (!empty()) return false;
    state.current = std::exchange(state.next, std::nullopt);
  }
  if (state.current && state.current->writer.Holds(element)) {
    state.current->writer.AddReserved(element);
    return true;
  }
  if (!state.current || !state.current->writer.Fits(element.size())) {
    if (!empty()) return false;
    // One of gaps only is of no use to anybody.
    state.current.emplace(ChunkMemory::Of(state.arena.get(), state.RoomFor(element.size())));
  }
  const std::span<char> place = state.current->writer.Add(element.size());
  std::memcpy(place.data(), element.data(), element.size());
  return true;
}

StoredChunkPtr ChunkMaker::Finish(const ChunkHead& head) {
  LOCKSTEP_CHECK(!empty());
  OpenChunk chunk = *std::exchange(state_->current, std::exchange(state_->next, std::nullopt));
  return FinishIn(state_->arena.get(), std::move(chunk.memory), chunk.writer, head);
}

StoredChunkPtr EmptyEnd(int64_t segment, int64_t total) {
  ChunkMemory memory = ChunkMemory::Of(nullptr, kChunkAlignment);
  ChunkWriter writer({memory.data(), memory.room});
  return FinishIn(
      nullptr, std::move(memory), writer,
      {.segment = segment, .first = total, .next = total, .ended = true, .known = total});
}

}  // namespace lockstep::data

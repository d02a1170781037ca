// Rows on their way through a segment: columns of equal rows, one column for each leaf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/data/engine/element.h"
#include "lockstep/data/engine/frame.h"
#include "lockstep/data/plan/definition.h"

namespace lockstep::engine::internal {

// One leaf of all rows of a block.
struct Column {
  plan::DType type = plan::DType::kInt64;
  std::vector<int64_t> dims;  // of one row, all known
  // Rows one after the other; of text and bytes the values, which `offsets` cut: one more than
  // items.
  std::byte* data = nullptr;
  const int64_t* offsets = nullptr;
  std::shared_ptr<const void> keep;

  int64_t items() const { return CountItems(dims); }  // of one row: 1 when `dims` is empty
  uint64_t row_bytes() const { return BytesOfItems(type, dims); }  // 0 of text and bytes
  // Item i of the column, over all rows. Of text and bytes alone.
  std::string_view item(int64_t i) const {
    return {reinterpret_cast<const char*>(data) + offsets[i],
            static_cast<size_t>(offsets[i + 1] - offsets[i])};
  }
};

// Rows that belong together, whose columns share their memory when it is copied.
struct Block {
  int64_t rows = 0;  // 0: the end
  std::vector<Column> columns;
  std::vector<int64_t> positions;  // of each row; of a batch its first
  // Not null: the columns lie in it as a frame has them whose leaves are the columns, as one
  // element of all rows when `batched`, else of the only row.
  std::shared_ptr<Memory> frame;
  bool batched = false;
};

// Rows first .. first+count of it, sharing the memory.
Block Slice(const Block& block, int64_t first, int64_t count);

// Those rows alone. `keep` has one entry a row. Fails only as `allocator` does.
absl::StatusOr<Block> Select(Block block, std::span<const uint8_t> keep,
                             const Allocator& allocator);

// All rows as one row with one more dimension. INVALID_ARGUMENT: they differ in shape.
absl::StatusOr<Block> Batch(std::vector<Block> parts, const Allocator& allocator);

// A frame for so many rows of these columns, whose data then lie in it. For fixed types only. Fails
// only as `allocator` does.
absl::StatusOr<Block> NewFrame(std::vector<Column> columns, int64_t rows, bool batched,
                               const Allocator& allocator);

// Row by row, a frame each. Small ones that lie in one memory get it from `for_many`. Fails only as
// the allocators do.
absl::StatusOr<std::vector<Element>> ToElements(const Block& block, uint64_t spec_hash,
                                                int64_t segment, int64_t index,
                                                const Allocator& allocator,
                                                const Allocator& for_many);

}  // namespace lockstep::engine::internal

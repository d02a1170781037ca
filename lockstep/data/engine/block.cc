#include "lockstep/data/engine/block.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/check.h"
#include "lockstep/data/plan/error.h"

namespace lockstep::engine::internal {
namespace {

// Frames smaller than this share a memory with their neighbours.
constexpr uint64_t kOwnMemoryLeast = 4096;

int64_t ValuesOf(const Column& column, int64_t rows) {
  return column.offsets[rows * column.items()] - column.offsets[0];
}

// The leaf of `rows` rows: dimensions `dims`.
FrameLeaf LeafOf(const Column& column, int64_t rows, std::vector<int64_t> dims) {
  FrameLeaf leaf = {.type = column.type, .dims = std::move(dims)};
  if (plan::IsVariable(column.type)) {
    leaf.bytes = static_cast<uint64_t>((rows * column.items() + 1) * 8 + ValuesOf(column, rows));
  } else {
    leaf.bytes = column.row_bytes() * static_cast<uint64_t>(rows);
  }
  return leaf;
}

// Rows of several parts, one after the other, as a frame has them.
void CopyLeaf(std::span<const Block> parts, size_t c, std::byte* to) {
  LOCKSTEP_DCHECK(!parts.empty());
  if (!plan::IsVariable(parts[0].columns[c].type)) {
    for (const Block& part : parts) {
      const Column& column = part.columns[c];
      const uint64_t bytes = column.row_bytes() * static_cast<uint64_t>(part.rows);
      if (bytes != 0) std::memcpy(to, column.data, bytes);
      to += bytes;
    }
    return;
  }
  int64_t items = 0;
  for (const Block& part : parts) items += part.rows * part.columns[c].items();
  auto* offsets = reinterpret_cast<int64_t*>(to);
  std::byte* values = to + (items + 1) * 8;
  int64_t end = 0;
  *offsets++ = 0;
  for (const Block& part : parts) {
    const Column& column = part.columns[c];
    const int64_t count = part.rows * column.items();
    for (int64_t i = 0; i < count; ++i)
      *offsets++ = end + column.offsets[i + 1] - column.offsets[0];
    const int64_t bytes = ValuesOf(column, part.rows);
    if (bytes != 0) std::memcpy(values + end, column.data + column.offsets[0], bytes);
    end += bytes;
  }
}

// Where the leaf lies, once it is in a frame.
void Point(Column& column, std::byte* leaf, int64_t rows, const std::shared_ptr<Memory>& keep) {
  column.keep = keep;
  column.data = leaf;
  if (!plan::IsVariable(column.type)) return;
  column.offsets = reinterpret_cast<const int64_t*>(leaf);
  column.data = leaf + (rows * column.items() + 1) * 8;
}

using Runs = std::vector<std::pair<int64_t, int64_t>>;  // first row, how many

absl::StatusOr<std::shared_ptr<Memory>> SelectRows(const Column& column, const Runs& runs,
                                                   int64_t rows, const Allocator& allocator) {
  const uint64_t size = column.row_bytes();
  auto memory = allocator(size * static_cast<uint64_t>(rows));
  if (!memory.ok() || size == 0) return memory;
  std::byte* to = (*memory)->data();
  for (const auto& [first, count] : runs) {
    const std::byte* from = column.data + static_cast<uint64_t>(first) * size;
    const uint64_t bytes = static_cast<uint64_t>(count) * size;
    // Of a length that the compiler knows it is one instruction.
    bytes == 8 ? std::memcpy(to, from, 8) : std::memcpy(to, from, bytes);
    to += bytes;
  }
  return memory;
}

// As CopyLeaf has them.
absl::StatusOr<std::shared_ptr<Memory>> SelectItems(const Column& column, const Runs& runs,
                                                    const Allocator& allocator) {
  int64_t items = 0;
  int64_t bytes = 0;
  for (const auto& [first, count] : runs) {
    items += count * column.items();
    bytes +=
        column.offsets[(first + count) * column.items()] - column.offsets[first * column.items()];
  }
  auto memory = allocator(static_cast<uint64_t>((items + 1) * 8 + bytes));
  if (!memory.ok()) return memory;
  auto* offsets = reinterpret_cast<int64_t*>((*memory)->data());
  std::byte* values = (*memory)->data() + (items + 1) * 8;
  int64_t end = 0;
  *offsets++ = 0;
  for (const auto& [first, count] : runs) {
    const int64_t* from = column.offsets + first * column.items();
    const int64_t run_items = count * column.items();
    for (int64_t i = 1; i <= run_items; ++i) *offsets++ = end + from[i] - from[0];
    const int64_t run_bytes = from[run_items] - from[0];
    if (run_bytes != 0) std::memcpy(values + end, column.data + from[0], run_bytes);
    end += run_bytes;
  }
  return memory;
}

std::vector<int64_t> WithRows(int64_t rows, const std::vector<int64_t>& dims) {
  std::vector<int64_t> all = {rows};
  all.insert(all.end(), dims.begin(), dims.end());
  return all;
}

}  // namespace

Block Slice(const Block& block, int64_t first, int64_t count) {
  LOCKSTEP_DCHECK(first >= 0 && count >= 0 && first + count <= block.rows);
  LOCKSTEP_DCHECK(static_cast<int64_t>(block.positions.size()) == block.rows);
  Block slice = {.rows = count, .columns = block.columns};
  slice.positions.assign(block.positions.begin() + first, block.positions.begin() + first + count);
  for (Column& column : slice.columns) {
    if (plan::IsVariable(column.type)) {
      column.offsets += first * column.items();
    } else {
      column.data += column.row_bytes() * static_cast<uint64_t>(first);
    }
  }
  return slice;
}

absl::StatusOr<Block> Select(Block block, std::span<const uint8_t> keep,
                             const Allocator& allocator) {
  LOCKSTEP_DCHECK(static_cast<int64_t>(keep.size()) >= block.rows);
  Block selected = {.columns = block.columns};
  Runs runs;
  for (int64_t i = 0; i < block.rows; ++i) {
    if (keep[i] == 0) continue;
    if (!runs.empty() && runs.back().first + runs.back().second == i) {
      ++runs.back().second;
    } else {
      runs.emplace_back(i, 1);
    }
    ++selected.rows;
    selected.positions.push_back(block.positions[i]);
  }
  if (selected.rows == block.rows) return block;
  if (runs.size() <= 1) {
    return runs.empty() ? selected : Slice(block, runs[0].first, runs[0].second);
  }
  for (Column& column : selected.columns) {
    auto memory = plan::IsVariable(column.type)
                      ? SelectItems(column, runs, allocator)
                      : SelectRows(column, runs, selected.rows, allocator);
    if (!memory.ok()) return memory.status();
    Point(column, (*memory)->data(), selected.rows, *memory);
  }
  return selected;
}

absl::StatusOr<Block> Batch(std::vector<Block> parts, const Allocator& allocator) {
  LOCKSTEP_DCHECK(!parts.empty() && !parts[0].positions.empty());
  int64_t rows = 0;
  for (const Block& part : parts) rows += part.rows;
  Block batch = {.rows = 1, .positions = {parts[0].positions[0]}};
  std::vector<FrameLeaf> leaves;
  for (size_t c = 0; c < parts[0].columns.size(); ++c) {
    Column column = parts[0].columns[c];
    FrameLeaf leaf = LeafOf(column, parts[0].rows, WithRows(rows, column.dims));
    for (size_t i = 1; i < parts.size(); ++i) {
      const Column& other = parts[i].columns[c];
      if (other.dims != column.dims) {
        return plan::Error(
            absl::StatusCode::kInvalidArgument, plan::kFunctionFailed,
            absl::StrCat("elements of shapes [", absl::StrJoin(column.dims, ","), "] and [",
                         absl::StrJoin(other.dims, ","),
                         "] cannot be put into one batch (position ", parts[i].positions[0], ")"));
      }
      leaf.bytes += LeafOf(other, parts[i].rows, {}).bytes;
      if (plan::IsVariable(column.type))
        leaf.bytes -= 8;  // the offset that each has beyond its items
    }
    leaves.push_back(std::move(leaf));
    batch.columns.push_back(std::move(column));
  }
  const bool there = parts.size() == 1 && parts[0].frame != nullptr && parts[0].batched;
  const FrameLayout layout = LayOut(leaves);
  std::shared_ptr<Memory> memory = parts[0].frame;
  if (!there) {
    auto fresh = allocator(layout.bytes);
    if (!fresh.ok()) return fresh.status();
    memory = *std::move(fresh);
  }
  for (size_t c = 0; c < leaves.size(); ++c) {
    std::byte* leaf = memory->data() + layout.offsets[c];
    if (!there) CopyLeaf(parts, c, leaf);
    Point(batch.columns[c], leaf, rows, memory);
    batch.columns[c].dims = std::move(leaves[c].dims);
  }
  batch.frame = std::move(memory);
  return batch;
}

absl::StatusOr<Block> NewFrame(std::vector<Column> columns, int64_t rows, bool batched,
                               const Allocator& allocator) {
  LOCKSTEP_CHECK(batched || rows == 1);
  std::vector<FrameLeaf> leaves;
  for (const Column& column : columns) {
    leaves.push_back(LeafOf(column, rows, batched ? WithRows(rows, column.dims) : column.dims));
  }
  const FrameLayout layout = LayOut(leaves);
  auto memory = allocator(layout.bytes);
  if (!memory.ok()) return memory.status();
  Block block = {.rows = rows, .columns = std::move(columns), .frame = *memory, .batched = batched};
  for (size_t c = 0; c < leaves.size(); ++c) {
    Point(block.columns[c], (*memory)->data() + layout.offsets[c], rows, *memory);
  }
  return block;
}

absl::StatusOr<std::vector<Element>> ToElements(const Block& block, uint64_t spec_hash,
                                                int64_t segment, int64_t index,
                                                const Allocator& allocator,
                                                const Allocator& for_many) {
  std::vector<FrameLeaf> leaves(block.columns.size());
  std::vector<Element> elements;
  elements.reserve(block.rows);
  // All layouts, to know which rows can share a memory.
  std::vector<FrameLayout> layouts;
  bool fixed = true;
  for (const Column& column : block.columns) fixed = fixed && !plan::IsVariable(column.type);
  const auto set_leaves = [&](const Block& row) {
    for (size_t c = 0; c < leaves.size(); ++c) {
      leaves[c] = LeafOf(row.columns[c], 1, row.columns[c].dims);
    }
  };
  if (block.rows == 1 && block.frame != nullptr && !block.batched) {
    set_leaves(block);
    const FrameLayout layout = LayOut(leaves);
    WriteHead(block.frame->data(), leaves, layout, spec_hash, segment, index);
    elements.emplace_back(block.frame, 0, layout.bytes);
    return elements;
  }
  std::vector<Block> rows;
  uint64_t bytes = 0;
  for (int64_t i = 0; i < block.rows; ++i) {
    rows.push_back(Slice(block, i, 1));
    if (i == 0 || !fixed) {
      set_leaves(rows.back());
      layouts.push_back(LayOut(leaves));
    }
    bytes += layouts.back().bytes;
  }
  std::shared_ptr<Memory> shared;
  const bool small = bytes < kOwnMemoryLeast * static_cast<uint64_t>(block.rows);
  uint64_t offset = 0;
  for (int64_t i = 0; i < block.rows; ++i) {
    const FrameLayout& layout = layouts[fixed ? 0 : i];
    if (shared == nullptr || !small) {
      auto memory = small ? for_many(bytes) : allocator(layout.bytes);
      if (!memory.ok()) return memory.status();
      shared = *std::move(memory);
      offset = 0;
    }
    std::byte* frame = shared->data() + offset;
    if (!fixed) set_leaves(rows[i]);
    for (size_t c = 0; c < leaves.size(); ++c) {
      CopyLeaf({&rows[i], 1}, c, frame + layout.offsets[c]);
    }
    WriteHead(frame, leaves, layout, spec_hash, segment, index + i);
    elements.emplace_back(shared, offset, layout.bytes);
    offset += layout.bytes;
  }
  return elements;
}

}  // namespace lockstep::engine::internal

#include "lockstep/data/engine/operators.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/data/engine/expression_run.h"
#include "lockstep/data/plan/error.h"
#include "lockstep/data/plan/source_spec.h"

namespace lockstep::engine::internal {
namespace {

constexpr int64_t kPieceBytes = 128 << 10;
constexpr int64_t kPieceRowsMost = 4096;
constexpr int64_t kRecordsAhead = 1024;

}  // namespace

int64_t PieceOf(const plan::ElementSpec& spec) {
  int64_t bytes = 1;
  for (const plan::Leaf& leaf : spec.leaves) {
    const int64_t items = std::min<int64_t>(plan::ItemsOf(leaf.dims), kPieceBytes);
    bytes += leaf.variable() ? 64 : items * static_cast<int64_t>(BytesOf(leaf.type));
  }
  return std::clamp<int64_t>(kPieceBytes / bytes, 1, kPieceRowsMost);
}

ErrorPolicy::ErrorPolicy(const plan::CheckedNode& node, int64_t& skipped)
    : where_(absl::StrCat(plan::WhereOf(node.node()), ": ", node.node().op)),
      skip_(node.Text("on_error") == "skip"),
      budget_(node.Int("error_budget")),
      skipped_(skipped) {}

absl::Status ErrorPolicy::Note(absl::StatusCode code, std::string_view reason, int64_t position,
                               const std::string& what) {
  if (skip_ && budget_ != 0) {
    if (budget_ > 0) --budget_;
    ++skipped_;
    return absl::OkStatus();
  }
  const char* more = skip_ ? "; no more may be left out of this segment (error_budget)" : "";
  return plan::Error(code, reason,
                     absl::StrCat(where_, ": at position ", position, ": ", what, more));
}

SourceOperator::SourceOperator(const DatasetParts& parts, int64_t first, int64_t count, Birth birth,
                               const Allocator& frames, int64_t& skipped,
                               const std::atomic<bool>* stop)
    : parts_(parts),
      birth_(birth),
      frames_(frames),
      next_(first),
      end_(first + count),
      width_(parts.plan.width()),
      stop_(stop) {
  for (size_t i = 0; i < parts.sources.size(); ++i) {
    const plan::Source& source = parts.plan.sources()[i];
    inputs_.push_back({.reader = parts.sources[i]->NewReader(),
                       .spec = &parts.source_specs[i],
                       .policy = ErrorPolicy(parts.nodes[source.node], skipped)});
  }
}

absl::Status SourceOperator::CheckUnchanged() {
  for (Input& input : inputs_) {
    if (absl::Status status = input.reader->CheckUnchanged(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void SourceOperator::FillRecords(int64_t rows) {
  const auto needed = static_cast<size_t>(rows) * width_;
  if (records_.size() - records_at_ >= needed) return;
  const int64_t ahead = std::min(std::max(rows, kRecordsAhead), end_ - next_);
  records_.resize(static_cast<size_t>(ahead) * width_);
  parts_.plan.Fill(next_, records_);
  records_at_ = 0;
}

absl::StatusOr<Block> SourceOperator::MakeFixed(int64_t rows) {
  std::vector<Column> columns;
  for (const plan::Leaf& leaf : parts_.plan.source_spec().leaves) {
    columns.push_back({.type = leaf.type, .dims = leaf.dims});
  }
  if (birth_ == Birth::kBatched || (birth_ == Birth::kSingle && rows == 1)) {
    return NewFrame(std::move(columns), rows, birth_ == Birth::kBatched, frames_);
  }
  for (Column& column : columns) {
    if (plan::IsVariable(column.type)) continue;
    auto memory = parts_.scratch(column.row_bytes() * static_cast<uint64_t>(rows));
    if (!memory.ok()) return memory.status();
    column.data = (*memory)->data();
    column.keep = *std::move(memory);
  }
  return Block{.rows = rows, .columns = std::move(columns)};
}

absl::StatusOr<Block> SourceOperator::Next(int64_t rows) {
  for (;;) {
    if (next_ == end_) return Block{};
    if (stop_ != nullptr && *stop_) {
      return absl::CancelledError("the run of the segment is stopped");
    }
    auto block = Read(std::min(rows, end_ - next_));
    // All of a piece may have been left out.
    if (!block.ok() || block->rows > 0) return block;
  }
}

absl::StatusOr<Block> SourceOperator::Read(int64_t rows) {
  FillRecords(rows);
  auto block = MakeFixed(rows);
  if (!block.ok()) return block;
  block->positions.resize(rows);
  for (int64_t i = 0; i < rows; ++i) block->positions[i] = next_ + i;
  std::vector<uint8_t> keep;
  const plan::Record* records = records_.data() + records_at_;
  size_t leaf = 0;
  for (size_t part = 0; part < width_; ++part) {
    for (Input& input : inputs_) input.rows.clear();
    for (int64_t i = 0; i < rows; ++i) {
      const plan::Record& record = records[static_cast<size_t>(i) * width_ + part];
      inputs_[record.source].rows.push_back({.index = record.index, .row = i});
    }
    const size_t leaves = inputs_[records[part].source].spec->leaves.size();
    Column& column = block->columns[leaf];
    absl::Status status;
    if (plan::IsVariable(column.type)) {
      status = ReadItems(column, rows, keep);
    } else {
      const std::span<const Column> columns(&column, leaves);
      for (Input& input : inputs_) {
        if (!input.rows.empty()) status.Update(input.reader->Read(input.rows, columns));
      }
    }
    if (!status.ok()) return status;
    leaf += leaves;
  }
  records_at_ += static_cast<size_t>(rows) * width_;
  next_ += rows;
  if (keep.empty()) return block;
  return Select(*std::move(block), keep, parts_.scratch);
}

absl::Status SourceOperator::ReadItems(Column& column, int64_t rows, std::vector<uint8_t>& keep) {
  std::vector<int64_t> places(rows);
  std::vector<int64_t> lengths;
  for (Input& input : inputs_) {
    if (input.rows.empty()) continue;
    lengths.resize(input.rows.size());
    if (absl::Status status = input.reader->Lengths(input.rows, lengths); !status.ok()) {
      return status;
    }
    for (size_t i = 0; i < lengths.size(); ++i) places[input.rows[i].row] = lengths[i];
  }
  int64_t bytes = 0;
  for (const int64_t place : places) bytes += place;
  const auto head = static_cast<uint64_t>(rows + 1) * 8;
  auto memory = parts_.scratch(head + static_cast<uint64_t>(bytes));
  if (!memory.ok()) return memory.status();
  auto* offsets = reinterpret_cast<int64_t*>((*memory)->data());
  std::byte* values = (*memory)->data() + head;
  std::vector<std::byte*> begins(rows);
  int64_t at = 0;
  for (int64_t i = 0; i < rows; ++i) {
    begins[i] = values + at;
    at += places[i];
  }

  std::vector<std::byte*> to;
  std::vector<Poisoned> poisoned;
  for (Input& input : inputs_) {
    if (input.rows.empty()) continue;
    lengths.resize(input.rows.size());
    to.clear();
    for (const RowOf& row : input.rows) to.push_back(begins[row.row]);
    poisoned.clear();
    absl::Status status = input.reader->ReadItems(input.rows, to, lengths, poisoned);
    if (!status.ok()) return status;
    for (size_t i = 0; i < lengths.size(); ++i) places[input.rows[i].row] = lengths[i];
    for (const Poisoned& poison : poisoned) {
      // Rows of one source come in their order.
      const auto row = std::find_if(input.rows.begin(), input.rows.end(),
                                    [&](const RowOf& r) { return r.row == poison.row; });
      status = input.policy.Note(
          absl::StatusCode::kDataLoss, plan::kRecordPoisoned, next_ + poison.row,
          absl::StrCat(input.reader->NameOf(row->index), " is damaged: ", poison.why));
      if (!status.ok()) return status;
      if (keep.empty()) keep.assign(rows, 1);
      keep[poison.row] = 0;
    }
  }
  // Close the gaps.
  offsets[0] = 0;
  for (int64_t i = 0; i < rows; ++i) {
    std::byte* place = values + offsets[i];
    if (place != begins[i] && places[i] != 0) std::memmove(place, begins[i], places[i]);
    offsets[i + 1] = offsets[i] + places[i];
  }
  column.offsets = offsets;
  column.data = values;
  column.keep = *std::move(memory);
  return absl::OkStatus();
}

MapOperator::MapOperator(std::unique_ptr<Operator> input, plan::CompiledExpression expression,
                         bool filter, const plan::CheckedNode& node, const Allocator& scratch,
                         int64_t& skipped)
    : input_(std::move(input)),
      expression_(std::move(expression)),
      filter_(filter),
      scratch_(scratch),
      policy_(node, skipped) {}

absl::StatusOr<Block> MapOperator::Next(int64_t rows) {
  std::vector<const char*> bad;
  std::vector<uint8_t> keep;
  for (;;) {
    auto block = input_->Next(rows);
    if (!block.ok() || block->rows == 0) return block;
    auto columns = Evaluate(expression_, *block, scratch_, bad);
    if (!columns.ok()) {
      // That there is no memory says nothing of the elements.
      if (columns.status().code() != absl::StatusCode::kInvalidArgument) return columns.status();
      // Shapes that differ are found for all rows at once.
      if (absl::Status status =
              policy_.Note(absl::StatusCode::kInvalidArgument, plan::kRecordPoisoned,
                           block->positions[0], std::string(columns.status().message()));
          !status.ok()) {
        return status;
      }
      continue;
    }
    keep.assign(block->rows, 1);
    for (int64_t i = 0; i < block->rows; ++i) {
      if (bad[i] == nullptr) continue;
      absl::Status status = policy_.Note(absl::StatusCode::kInvalidArgument, plan::kRecordPoisoned,
                                         block->positions[i], bad[i]);
      if (!status.ok()) return status;
      keep[i] = 0;
    }
    if (filter_) {
      const auto* wanted = reinterpret_cast<const uint8_t*>(columns->front().data);
      for (int64_t i = 0; i < block->rows; ++i) keep[i] = keep[i] != 0 && wanted[i] != 0;
    } else {
      block->columns = *std::move(columns);
      block->frame = nullptr;
    }
    auto selected = Select(*std::move(block), keep, scratch_);
    if (!selected.ok() || selected->rows > 0) return selected;
  }
}

BatchOperator::BatchOperator(std::unique_ptr<Operator> input, int64_t count, bool drop_remainder,
                             int64_t piece, const Allocator& allocator)
    : input_(std::move(input)),
      count_(count),
      drop_remainder_(drop_remainder),
      piece_(piece),
      allocator_(allocator) {}

absl::StatusOr<Block> BatchOperator::Next(int64_t) {
  std::vector<Block> parts;
  int64_t rows = 0;
  while (rows < count_) {
    Block part;
    if (left_.rows > 0) {
      part = std::move(left_);
      left_ = Block();
    } else {
      if (ended_) break;
      auto next = input_->Next(std::max(count_ - rows, piece_));
      if (!next.ok()) return next;
      if (next->rows == 0) {
        ended_ = true;
        break;
      }
      part = *std::move(next);
    }
    if (part.rows > count_ - rows) {
      left_ = Slice(part, count_ - rows, part.rows - (count_ - rows));
      part = Slice(part, 0, count_ - rows);
    }
    rows += part.rows;
    parts.push_back(std::move(part));
  }
  if (rows == 0 || (rows < count_ && drop_remainder_)) return Block{};
  return Batch(std::move(parts), allocator_);
}

}  // namespace lockstep::engine::internal

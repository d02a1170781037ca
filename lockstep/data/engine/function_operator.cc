#include "lockstep/data/engine/function_operator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/data/plan/error.h"

namespace lockstep::engine::internal {
namespace {

// Elements of one call: `function_chunk_max`. So many that waking the other process costs little
// beside them, so few that the next ones are not kept waiting.
constexpr int64_t kChunkMost = 256;

bool Fits(const LeafView& leaf, const plan::Leaf& spec) {
  if (leaf.type != spec.type || leaf.dims.size() != spec.dims.size()) return false;
  for (size_t i = 0; i < spec.dims.size(); ++i) {
    if (spec.dims[i] != plan::kUnknownDim && spec.dims[i] != leaf.dims[i]) return false;
  }
  return true;
}

plan::ElementSpec SpecOf(const ElementView& view, const plan::ElementSpec& named) {
  plan::ElementSpec spec = named;
  for (size_t i = 0; i < spec.leaves.size(); ++i) {
    spec.leaves[i].type = view.leaf(i).type;
    spec.leaves[i].dims.assign(view.leaf(i).dims.begin(), view.leaf(i).dims.end());
  }
  return spec;
}

bool SameShape(const Block& a, const Block& b) {
  for (size_t c = 0; c < a.columns.size(); ++c) {
    if (a.columns[c].dims != b.columns[c].dims) return false;
  }
  return true;
}

}  // namespace

FunctionOperator::FunctionOperator(std::unique_ptr<Operator> input, Function function,
                                   std::shared_ptr<FunctionRunner> runner,
                                   const plan::CheckedNode& node, int64_t segment,
                                   const Allocator& scratch, int64_t& skipped)
    : input_(std::move(input)),
      function_(std::move(function)),
      runner_(std::move(runner)),
      segment_(segment),
      scratch_(scratch),
      policy_(node, skipped) {}

// One row, whose memory is the frame's.
absl::StatusOr<Block> FunctionOperator::RowOf(const Element& element) const {
  const auto view = element.Parse();
  if (!view.ok()) return view.status();
  const auto& leaves = function_.output.leaves;
  bool fits = view->leaves() == leaves.size();
  for (size_t i = 0; fits && i < leaves.size(); ++i) fits = Fits(view->leaf(i), leaves[i]);
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat(function_.reference, " returned ",
                     view->leaves() == leaves.size() ? ToText(SpecOf(*view, function_.output))
                                                     : absl::StrCat(view->leaves(), " leaves"),
                     ", and its spec says ", ToText(function_.output)));
  }
  Block row = {.rows = 1};
  for (size_t i = 0; i < leaves.size(); ++i) {
    const LeafView& leaf = view->leaf(i);
    Column column = {.type = leaf.type, .dims = {leaf.dims.begin(), leaf.dims.end()}};
    // Nobody writes into columns.
    column.data = const_cast<std::byte*>(leaf.bytes.data());
    if (plan::IsVariable(leaf.type)) {
      column.offsets = reinterpret_cast<const int64_t*>(leaf.bytes.data());
      column.data += (leaf.items() + 1) * 8;
    }
    column.keep = element.memory();
    row.columns.push_back(std::move(column));
  }
  return row;
}

absl::StatusOr<Block> FunctionOperator::Join(std::span<const Block> rows) const {
  if (rows.size() == 1) return rows[0];
  // A batch of them has one more dimension, which a block has as its rows.
  auto joined = Batch({rows.begin(), rows.end()}, scratch_);
  if (!joined.ok()) return joined;
  joined->rows = static_cast<int64_t>(rows.size());
  joined->frame = nullptr;
  joined->positions.clear();
  for (const Block& row : rows) joined->positions.push_back(row.positions[0]);
  for (Column& column : joined->columns) column.dims.erase(column.dims.begin());
  return joined;
}

absl::Status FunctionOperator::Refill(int64_t rows) {
  auto block = input_->Next(std::min(rows, kChunkMost));
  if (!block.ok()) return block.status();
  if (block->rows == 0) {
    ended_ = true;
    return absl::OkStatus();
  }
  const auto elements =
      ToElements(*block, HashOf(function_.input), segment_, 0, scratch_, scratch_);
  if (!elements.ok()) return elements.status();
  auto results = runner_->Call(function_, *elements);
  if (!results.ok()) return results.status();
  if (results->size() != elements->size()) return absl::InternalError("results are missing");
  std::vector<Block> alike;
  const auto join = [&]() -> absl::Status {
    if (alike.empty()) return absl::OkStatus();
    auto joined = Join(alike);
    if (!joined.ok()) return joined.status();
    ready_.push_back(*std::move(joined));
    alike.clear();
    return absl::OkStatus();
  };
  for (size_t i = 0; i < results->size(); ++i) {
    const FunctionResult& result = (*results)[i];
    std::string error = result.error;
    if (result.element) {
      auto row = RowOf(*result.element);
      if (row.ok()) {
        row->positions = {block->positions[i]};
        if (!alike.empty() && !SameShape(alike.back(), *row)) {
          if (absl::Status status = join(); !status.ok()) return status;
        }
        alike.push_back(*std::move(row));
        continue;
      }
      error = std::string(row.status().message());
    }
    absl::Status status = policy_.Note(absl::StatusCode::kInvalidArgument, plan::kFunctionFailed,
                                       block->positions[i], error);
    if (!status.ok()) return status;
  }
  return join();
}

absl::StatusOr<Block> FunctionOperator::Next(int64_t rows) {
  LOCKSTEP_DCHECK(rows > 0);
  while (ready_.empty() && !ended_) {
    if (absl::Status status = Refill(rows); !status.ok()) return status;
  }
  if (ready_.empty()) return Block{};
  Block block = std::move(ready_.front());
  ready_.pop_front();
  if (block.rows <= rows) return block;
  ready_.push_front(Slice(block, rows, block.rows - rows));
  return Slice(block, 0, rows);
}

}  // namespace lockstep::engine::internal

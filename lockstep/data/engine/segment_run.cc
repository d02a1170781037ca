#include "lockstep/data/engine/segment_run.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/data/engine/dataset_parts.h"
#include "lockstep/data/engine/function_operator.h"
#include "lockstep/data/engine/operators.h"

namespace lockstep::engine {

namespace internal {

struct RunState {
  std::shared_ptr<const Dataset> dataset;
  Allocator frames;
  int64_t segment = 0;
  int64_t skipped = 0;
  std::unique_ptr<Operator> last;
  SourceOperator* source = nullptr;  // the first of them
  int64_t piece = 1;                 // rows to ask for
  int64_t index = 0;                 // of the next element to be made
  std::vector<Element> ready;        // the next is at the end
  bool ended = false;
  absl::Status failed;
};

}  // namespace internal

namespace {

using internal::Birth;
using internal::RunState;

// Rows that take this are not worth going together.
constexpr int64_t kSingleRowPiece = 32;

// Where the source's rows should be born: in the frame, when nothing comes between.
Birth BirthOf(const internal::DatasetParts& parts) {
  if (!parts.plain_source) return Birth::kLoose;
  const auto& stages = parts.plan.stages();
  if (stages.empty()) {
    return internal::PieceOf(parts.plan.spec()) <= kSingleRowPiece ? Birth::kSingle : Birth::kLoose;
  }
  const bool only_batch =
      stages.size() == 1 && parts.nodes[stages[0].node].op() == plan::Op::kBatch;
  return only_batch ? Birth::kBatched : Birth::kLoose;
}

void AddStages(const internal::DatasetParts& parts, Birth birth, RunState& state) {
  const plan::ElementSpec* spec = &parts.plan.source_spec();
  const auto& stages = parts.plan.stages();
  state.piece = birth == Birth::kSingle ? 1 : internal::PieceOf(*spec);
  for (size_t i = 0; i < stages.size(); ++i) {
    const plan::CheckedNode& node = parts.nodes[stages[i].node];
    switch (node.op()) {
      case plan::Op::kBatch: {
        const int64_t piece = birth == Birth::kBatched ? 1 : state.piece;
        const bool last = i + 1 == stages.size();
        state.last = std::make_unique<internal::BatchOperator>(
            std::move(state.last), node.Int("count"), node.As<bool>("drop_remainder"), piece,
            last ? state.frames : parts.scratch);
        state.piece = 1;
        break;
      }
      case plan::Op::kMapPython: {
        Function function = {.reference = node.Text("function"),
                             .input = *spec,
                             .output = stages[i].spec,
                             .timeout = absl::Milliseconds(node.Int("timeout_ms"))};
        state.last = std::make_unique<internal::FunctionOperator>(
            std::move(state.last), std::move(function), parts.options.functions, node,
            state.segment, parts.scratch, state.skipped);
        break;
      }
      default:
        state.last = std::make_unique<internal::MapOperator>(
            std::move(state.last), parts.expressions[i], node.op() == plan::Op::kFilter, node,
            parts.scratch, state.skipped);
        break;
    }
    spec = &stages[i].spec;
  }
}

}  // namespace

SegmentRun::SegmentRun(std::unique_ptr<RunState> state) : state_(std::move(state)) {}
SegmentRun::~SegmentRun() = default;

absl::StatusOr<std::unique_ptr<SegmentRun>> SegmentRun::Start(
    std::shared_ptr<const Dataset> dataset, int64_t segment, Allocator frames,
    const std::atomic<bool>* stop) {
  const plan::Plan& plan = dataset->plan();
  const int64_t count = plan.positions_of(segment);
  if (count == 0) {
    return absl::OutOfRangeError(
        absl::StrCat("segment ", segment, " of ", plan.segments(), " does not exist"));
  }
  const internal::DatasetParts& parts = dataset->parts();
  auto state = std::make_unique<RunState>();
  state->dataset = std::move(dataset);
  state->segment = segment;
  state->frames = frames == nullptr ? parts.options.allocator : std::move(frames);
  const Birth birth = BirthOf(parts);
  auto source = std::make_unique<internal::SourceOperator>(
      parts, plan.first_of(segment), count, birth, state->frames, state->skipped, stop);
  state->source = source.get();
  state->last = std::move(source);
  AddStages(parts, birth, *state);
  return std::unique_ptr<SegmentRun>(new SegmentRun(std::move(state)));
}

absl::Status SegmentRun::Refill() {
  RunState& state = *state_;
  const internal::DatasetParts& parts = state.dataset->parts();
  auto block = state.last->Next(state.piece);
  if (!block.ok()) return block.status();
  if (block->rows == 0) {
    state.ended = true;
    return state.source->CheckUnchanged();
  }
  auto elements = ToElements(*block, parts.spec_hash, state.segment, state.index, state.frames,
                             parts.options.allocator);
  if (!elements.ok()) return elements.status();
  state.index += block->rows;
  state.ready.assign(std::make_move_iterator(elements->rbegin()),
                     std::make_move_iterator(elements->rend()));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Element>> SegmentRun::Next() {
  RunState& state = *state_;
  if (!state.failed.ok()) return state.failed;
  while (state.ready.empty()) {
    if (state.ended) return std::optional<Element>();
    state.failed = Refill();
    if (!state.failed.ok()) return state.failed;
  }
  std::optional<Element> element = std::move(state.ready.back());
  state.ready.pop_back();
  return element;
}

int64_t SegmentRun::skipped() const { return state_->skipped; }

}  // namespace lockstep::engine

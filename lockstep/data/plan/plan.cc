#include "lockstep/data/plan/plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/data/plan/error.h"
#include "lockstep/data/plan/permutation.h"
#include "lockstep/data/plan/pipeline.h"
#include "lockstep/data/plan/source_spec.h"

namespace lockstep::plan {

namespace internal {

// One source or plan operator, with what follows from how many records there are.
struct PlanNode {
  Op op = Op::kRange;
  std::vector<size_t> children;
  int64_t size = 0;  // positions of one pass over it
  size_t width = 1;
  uint32_t source = 0;
  int64_t count = 0;
  uint64_t seed = 0;
  bool reshuffle = false;
  std::vector<int64_t> begins;   // concat: where each child begins
  std::vector<int64_t> weights;  // mix
  std::vector<uint32_t> turn;    // mix: whose turn it is, over one period
  std::vector<uint32_t> before;  // mix: how many turns of the same child came before in the period
};

struct PlanTree {
  std::vector<PlanNode> nodes;
  std::vector<Source> sources;
  std::vector<Stage> stages;
  std::vector<int64_t> batches;  // what the batches among the stages hold
  std::vector<bool> drops;       // whether they drop the remainder
  ElementSpec source_spec;
  ElementSpec spec;
  bool may_drop = false;
  int64_t segment_positions = 1;

  const PlanNode& root() const { return nodes.back(); }
  void Fill(size_t at, std::vector<int64_t> places, std::vector<uint64_t> epochs,
            std::vector<size_t> rows, size_t column, std::span<Record> records) const;
  void FillParts(const PlanNode& node, const std::vector<int64_t>& places,
                 const std::vector<uint64_t>& epochs, const std::vector<size_t>& rows,
                 size_t column, std::span<Record> records) const;
};

}  // namespace internal

namespace {

using internal::PlanNode;
using internal::PlanTree;

// A segment by default: positions and bytes.
constexpr int64_t kSegmentBytes = int64_t{16} << 20;
constexpr int64_t kSegmentLeast = 1024;
constexpr int64_t kSegmentMost = 16384;
static_assert(kSegmentLeast <= kSegmentMost);
// So that some dozens of workers have something to do.
constexpr int64_t kSegmentsWanted = 32;

// Of no value that a number of positions can have.
constexpr int64_t kLarge = kInfinite - 1;

int64_t PowerOfTwoUpTo(int64_t n) {
  int64_t power = 1;
  while (power <= n / 2) power *= 2;
  return power;
}

// Each child's turns spread evenly: next is who is furthest behind its share.
void MakeTurns(PlanNode& node) {
  int64_t sum = 0;
  for (const int64_t weight : node.weights) sum += weight;
  std::vector<int64_t> given(node.weights.size(), 0);
  for (int64_t slot = 0; slot < sum; ++slot) {
    size_t next = 0;
    int64_t most = std::numeric_limits<int64_t>::min();
    for (size_t i = 0; i < node.weights.size(); ++i) {
      const int64_t behind = node.weights[i] * (slot + 1) - given[i] * sum;
      if (behind > most) {
        most = behind;
        next = i;
      }
    }
    node.turn.push_back(static_cast<uint32_t>(next));
    node.before.push_back(static_cast<uint32_t>(given[next]++));
  }
  // One that got more than its weight would not have been behind the others.
  LOCKSTEP_DCHECK(given == node.weights);
}

// Positions until it would be the turn of a child that has ended.
int64_t MixSize(const PlanNode& node, const std::vector<PlanNode>& nodes) {
  const auto period = static_cast<int64_t>(node.turn.size());
  LOCKSTEP_DCHECK(period > 0);
  int64_t size = kInfinite;
  for (size_t i = 0; i < node.children.size(); ++i) {
    const int64_t records = nodes[node.children[i]].size;
    if (records == kInfinite) continue;
    const int64_t whole = records / node.weights[i];
    const auto left = static_cast<uint32_t>(records % node.weights[i]);
    if (whole >= kLarge / period - 1) continue;
    for (int64_t slot = 0; slot < period; ++slot) {
      if (node.turn[slot] == i && node.before[slot] == left) {
        size = std::min(size, whole * period + slot);
        break;
      }
    }
  }
  return size;
}

absl::Status SetSize(const CheckedNode& checked, PlanNode& node, const std::vector<PlanNode>& nodes,
                     int64_t records) {
  const int64_t below = node.children.empty() ? 0 : nodes[node.children[0]].size;
  switch (node.op) {
    case Op::kShuffle:
      if (below == kInfinite) {
        return InvalidNode(checked.node(),
                           "what never ends cannot be shuffled: put it before repeat");
      }
      node.size = below;
      break;
    case Op::kRepeat:
      if (below == 0 || node.count == 0) {
        node.size = 0;
      } else if (node.count == -1 || below == kInfinite) {
        node.size = kInfinite;
      } else if (below > kLarge / node.count) {
        return InvalidNode(checked.node(), "that is more than can be counted: repeat for ever, -1");
      } else {
        node.size = below * node.count;
      }
      break;
    case Op::kTake:
      node.size = std::min(below, node.count);
      break;
    case Op::kSkip:
      node.size = below == kInfinite ? kInfinite : std::max<int64_t>(0, below - node.count);
      break;
    case Op::kConcat:
      for (const size_t child : node.children) {
        if (node.size == kInfinite) {
          return InvalidNode(checked.node(), "only the last input may have no end");
        }
        node.begins.push_back(node.size);
        const int64_t more = nodes[child].size;
        if (more != kInfinite && more > kLarge - node.size) {
          return InvalidNode(checked.node(), "that is more than can be counted");
        }
        node.size = more == kInfinite ? kInfinite : node.size + more;
      }
      break;
    case Op::kZip:
      node.size = kInfinite;
      node.width = 0;
      for (const size_t child : node.children) {
        node.size = std::min(node.size, nodes[child].size);
        node.width += nodes[child].width;
      }
      return absl::OkStatus();
    case Op::kMix:
      MakeTurns(node);
      node.size = MixSize(node, nodes);
      break;
    default:
      node.size = records;
      return absl::OkStatus();
  }
  node.width = nodes[node.children[0]].width;
  return absl::OkStatus();
}

int64_t DefaultSegment(const Pipeline& pipeline, const Manifest& manifest, int64_t positions) {
  int64_t bytes = 1;
  for (const TreeNode& node : pipeline.tree) {
    if (!node.children.empty()) continue;
    bytes = std::max(bytes, BytesOfRecord(pipeline.nodes[node.node], node.spec, manifest));
  }
  int64_t most = kSegmentMost;
  if (positions != kInfinite) {
    most = std::clamp(PowerOfTwoUpTo(positions / kSegmentsWanted), kSegmentLeast, kSegmentMost);
  }
  return std::min(most, PowerOfTwoUpTo(std::max<int64_t>(1, kSegmentBytes / bytes)));
}

void MakeStages(const Pipeline& pipeline, PlanTree& tree) {
  tree.stages = pipeline.stages;
  for (const Stage& stage : tree.stages) {
    const CheckedNode& node = pipeline.nodes[stage.node];
    if (node.op() != Op::kBatch) continue;
    tree.batches.push_back(node.Int("count"));
    tree.drops.push_back(node.As<bool>("drop_remainder"));
  }
  tree.spec = pipeline.spec;
  tree.source_spec = pipeline.tree[pipeline.root].spec;
  tree.may_drop = pipeline.may_drop;
}

int64_t CountElements(const PlanTree& tree, int64_t positions) {
  LOCKSTEP_DCHECK(tree.batches.size() == tree.drops.size());
  int64_t elements = positions;
  for (size_t i = 0; i < tree.batches.size(); ++i) {
    const int64_t whole = elements / tree.batches[i];
    elements = whole + (elements % tree.batches[i] != 0 && !tree.drops[i] ? 1 : 0);
  }
  return elements;
}

}  // namespace

absl::StatusOr<Plan> Plan::Make(const Definition& definition, const Manifest& manifest) {
  const auto pipeline = MakePipeline(definition, &manifest);
  if (!pipeline.ok()) return pipeline.status();
  if (!pipeline->spec.known) {
    return absl::FailedPreconditionError("the files of the dataset have not been looked at yet");
  }
  auto tree = std::make_shared<PlanTree>();
  std::map<uint32_t, uint32_t> source_of;  // by index of the node
  // What the root does not reach is left behind; children come first in either.
  std::vector<size_t> wanted = {pipeline->root};
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto& children = pipeline->tree[wanted[i]].children;
    wanted.insert(wanted.end(), children.begin(), children.end());
  }
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  // Children stand before those that they are of, so that the root comes last.
  LOCKSTEP_DCHECK(wanted.back() == pipeline->root);
  std::map<size_t, size_t> moved;
  for (const size_t at : wanted) {
    const TreeNode& from = pipeline->tree[at];
    const CheckedNode& checked = pipeline->nodes[from.node];
    PlanNode node = {.op = from.op,
                     .count = from.count,
                     .seed = from.seed,
                     .reshuffle = from.reshuffle,
                     .weights = from.weights};
    for (const size_t child : from.children) node.children.push_back(moved[child]);
    int64_t records = 0;
    if (checked.rule().kind == OpKind::kSource) {
      records = RecordsOf(checked, manifest);
      const auto [entry, fresh] =
          source_of.emplace(from.node, static_cast<uint32_t>(tree->sources.size()));
      if (fresh) tree->sources.push_back({.node = from.node, .records = records});
      node.source = entry->second;
    }
    if (absl::Status status = SetSize(checked, node, tree->nodes, records); !status.ok()) {
      return status;
    }
    moved[at] = tree->nodes.size();
    tree->nodes.push_back(std::move(node));
  }
  MakeStages(*pipeline, *tree);
  const int64_t wish = pipeline->segment != 0
                           ? pipeline->segment
                           : DefaultSegment(*pipeline, manifest, tree->root().size);
  // With whole batches in each, so that only the last of all may be short.
  const int64_t batch = pipeline->may_drop ? 1 : pipeline->batch_positions;
  tree->segment_positions = (wish + batch - 1) / batch * batch;
  LOCKSTEP_DCHECK(tree->segment_positions > 0 && tree->segment_positions % batch == 0);
  return Plan(std::move(tree));
}

int64_t Plan::positions() const { return tree_->root().size; }

int64_t Plan::segments() const {
  const int64_t all = positions();
  if (all == kInfinite) return kInfinite;
  return all / segment_positions() + (all % segment_positions() != 0 ? 1 : 0);
}

int64_t Plan::segment_positions() const { return tree_->segment_positions; }

int64_t Plan::positions_of(int64_t segment) const {
  if (segment < 0 || segment >= segments()) return 0;
  if (positions() == kInfinite) {
    // Beyond what positions can count there is nothing.
    if (segment > kLarge / segment_positions() - 1) return 0;
    return segment_positions();
  }
  return std::min(segment_positions(), positions() - first_of(segment));
}

std::optional<int64_t> Plan::elements_of(int64_t segment) const {
  if (tree_->may_drop) return std::nullopt;
  return CountElements(*tree_, positions_of(segment));
}

int64_t Plan::elements_most(int64_t segment) const {
  return CountElements(*tree_, positions_of(segment));
}

std::optional<int64_t> Plan::elements() const {
  if (tree_->may_drop) return std::nullopt;
  if (positions() == kInfinite) return kInfinite;
  const int64_t whole = positions() / segment_positions();
  return whole * CountElements(*tree_, segment_positions()) +
         CountElements(*tree_, positions() % segment_positions());
}

int64_t Plan::epoch_positions() const {
  const PlanNode& root = tree_->root();
  return root.op == Op::kRepeat ? tree_->nodes[root.children[0]].size : root.size;
}

bool Plan::in_order() const {
  const PlanNode& root = tree_->root();
  return root.children.empty() ||
         (root.op == Op::kRepeat && tree_->nodes[root.children[0]].children.empty());
}

size_t Plan::width() const { return tree_->root().width; }

void Plan::Fill(int64_t first, std::span<Record> records) const {
  LOCKSTEP_DCHECK(records.size() % width() == 0);
  const size_t count = records.size() / width();
  LOCKSTEP_CHECK(first >= 0 && static_cast<int64_t>(count) <= positions() - first);
  std::vector<int64_t> places(count);
  std::vector<size_t> rows(count);
  for (size_t i = 0; i < count; ++i) {
    places[i] = first + static_cast<int64_t>(i);
    rows[i] = i;
  }
  tree_->Fill(tree_->nodes.size() - 1, std::move(places), std::vector<uint64_t>(count, 0),
              std::move(rows), 0, records);
}

Record Plan::At(int64_t position) const {
  std::vector<Record> records(width());
  Fill(position, records);
  return records[0];
}

const std::vector<Source>& Plan::sources() const { return tree_->sources; }
const ElementSpec& Plan::source_spec() const { return tree_->source_spec; }
const std::vector<Stage>& Plan::stages() const { return tree_->stages; }
const ElementSpec& Plan::spec() const { return tree_->spec; }

namespace internal {
namespace {

// Which pass of `size` each place is in; places become those within the pass.
void SplitEpochs(int64_t size, std::vector<int64_t>& places, std::vector<uint64_t>& epochs) {
  LOCKSTEP_DCHECK(places.size() == epochs.size() && (size > 0 || places.empty()));
  // Neighbours are mostly in one pass: a division for each would cost more than all the rest.
  int64_t begin = 0;
  int64_t pass = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] < begin || places[i] - begin >= size) {
      pass = places[i] / size;
      begin = pass * size;
    }
    places[i] -= begin;
    const auto number = static_cast<uint64_t>(pass);
    epochs[i] = epochs[i] == 0 ? number : Mix(epochs[i], number);
  }
}

void Shuffle(const PlanNode& node, std::vector<int64_t>& places,
             const std::vector<uint64_t>& epochs) {
  size_t i = 0;
  while (i < places.size()) {
    const uint64_t epoch = node.reshuffle ? epochs[i] : 0;
    const Permutation permutation(static_cast<uint64_t>(node.size), Mix(node.seed, epoch));
    for (; i < places.size() && (!node.reshuffle || epochs[i] == epoch); ++i) {
      // It would not come back from beyond its size.
      LOCKSTEP_DCHECK(places[i] >= 0 && places[i] < node.size);
      places[i] = static_cast<int64_t>(permutation(static_cast<uint64_t>(places[i])));
    }
  }
}

}  // namespace

void PlanTree::Fill(size_t at, std::vector<int64_t> places, std::vector<uint64_t> epochs,
                    std::vector<size_t> rows, size_t column, std::span<Record> records) const {
  LOCKSTEP_DCHECK(places.size() == epochs.size() && places.size() == rows.size());
  for (;;) {
    const PlanNode& node = nodes[at];
    switch (node.op) {
      case Op::kTake:
        break;
      case Op::kSkip:
        // Of what never ends, places beyond what can be counted must not run over: they would lead
        // out of the source.
        for (int64_t& place : places) place = std::min(place, kLarge - node.count) + node.count;
        break;
      case Op::kRepeat:
        if (nodes[node.children[0]].size != kInfinite) {
          SplitEpochs(nodes[node.children[0]].size, places, epochs);
        }
        break;
      case Op::kShuffle:
        Shuffle(node, places, epochs);
        break;
      case Op::kConcat:
      case Op::kMix:
        FillParts(node, places, epochs, rows, column, records);
        return;
      case Op::kZip:
        for (const size_t child : node.children) {
          Fill(child, places, epochs, rows, column, records);
          column += nodes[child].width;
        }
        return;
      default:
        for (size_t i = 0; i < places.size(); ++i) {
          records[rows[i] * root().width + column] = {.source = node.source, .index = places[i]};
        }
        return;
    }
    at = node.children[0];
  }
}

void PlanTree::FillParts(const PlanNode& node, const std::vector<int64_t>& places,
                         const std::vector<uint64_t>& epochs, const std::vector<size_t>& rows,
                         size_t column, std::span<Record> records) const {
  struct Part {
    std::vector<int64_t> places;
    std::vector<uint64_t> epochs;
    std::vector<size_t> rows;
  };
  std::vector<Part> parts(node.children.size());
  const auto period = static_cast<int64_t>(node.turn.size());
  for (size_t i = 0; i < places.size(); ++i) {
    size_t child = 0;
    int64_t place = places[i];
    if (node.op == Op::kMix) {
      const int64_t slot = place % period;
      child = node.turn[slot];
      place = place / period * node.weights[child] + node.before[slot];
    } else {
      // The last that begins there or before: empty ones begin where the next does.
      const auto after = std::upper_bound(node.begins.begin(), node.begins.end(), place);
      LOCKSTEP_DCHECK(after != node.begins.begin());  // the first begins at 0
      child = static_cast<size_t>(after - node.begins.begin()) - 1;
      place -= node.begins[child];
    }
    parts[child].places.push_back(place);
    parts[child].epochs.push_back(epochs[i]);
    parts[child].rows.push_back(rows[i]);
  }
  for (size_t child = 0; child < parts.size(); ++child) {
    if (parts[child].places.empty()) continue;
    Fill(node.children[child], std::move(parts[child].places), std::move(parts[child].epochs),
         std::move(parts[child].rows), column, records);
  }
}

}  // namespace internal

}  // namespace lockstep::plan

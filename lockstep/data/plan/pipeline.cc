#include "lockstep/data/plan/pipeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/data/plan/error.h"
#include "lockstep/data/plan/expression.h"
#include "lockstep/data/plan/source_spec.h"

namespace lockstep::plan {
namespace {

// Elements of one batch: `batch_elements_max`. Positions of a segment: `segment_positions_max`.
constexpr int64_t kBatchElementsMax = int64_t{1} << 24;
constexpr int64_t kSegmentPositionsMax = int64_t{1} << 30;
// One batch fits into a segment, and products of both do not run over.
static_assert(kBatchElementsMax <= kSegmentPositionsMax && kSegmentPositionsMax < kInfinite >> 31);
constexpr int64_t kWeightsMax = 65536;

// What stands behind one node: where its plan part ends, and the segment operators since then.
struct Branch {
  size_t tree = 0;
  std::vector<Stage> stages;
  ElementSpec spec;
  bool may_drop = false;
  bool batched = false;
  bool filtered = false;
  int64_t batch_positions = 1;
};

class Maker {
 public:
  Maker(const Definition& definition, const Manifest* manifest)
      : definition_(definition), manifest_(manifest) {}

  absl::StatusOr<Pipeline> Make();

 private:
  absl::Status Add(uint32_t index);
  absl::StatusOr<Branch> AddSource(uint32_t index);
  absl::StatusOr<Branch> AddPlan(uint32_t index);
  absl::StatusOr<Branch> AddOnePlan(uint32_t index, Branch input);
  absl::StatusOr<Branch> AddSegment(uint32_t index);
  absl::StatusOr<ElementSpec> ZipSpec(const CheckedNode& node, const std::vector<Branch>& inputs);
  absl::Status CheckMix(const CheckedNode& node);
  absl::Status CheckAlike(const Node& node, const std::vector<Branch>& inputs);

  const Definition& definition_;
  const Manifest* const manifest_;
  Pipeline pipeline_;
  std::map<uint32_t, Branch> branches_;  // by the id of a node
};

absl::StatusOr<Pipeline> Maker::Make() {
  if (definition_.version != 1) {
    return Invalid(absl::StrCat("the definition is of version ", definition_.version,
                                ", and this program knows version 1: bring both to one release"));
  }
  if (definition_.nodes.empty()) return Invalid("the definition has no operators");
  if (definition_.nodes.size() > kNodesMax) {
    return Invalid(absl::StrCat("the definition has ", definition_.nodes.size(),
                                " operators; at most ", kNodesMax, " are allowed"));
  }
  for (uint32_t i = 0; i < definition_.nodes.size(); ++i) {
    const Node& node = definition_.nodes[i];
    if (branches_.contains(node.id)) {
      return InvalidNode(node, absl::StrCat("two operators have the id ", node.id));
    }
    auto checked = CheckedNode::Make(node, i + 1 == definition_.nodes.size());
    if (!checked.ok()) return checked.status();
    pipeline_.nodes.push_back(*checked);
    if (absl::Status status = Add(i); !status.ok()) return status;
  }
  const CheckedNode& last = pipeline_.nodes.back();
  Branch& branch = branches_[last.node().id];
  pipeline_.root = branch.tree;
  pipeline_.stages = std::move(branch.stages);
  pipeline_.spec = std::move(branch.spec);
  pipeline_.may_drop = branch.may_drop;
  pipeline_.batch_positions = branch.batch_positions;
  pipeline_.segment = last.Int("segment");
  if (pipeline_.segment > kSegmentPositionsMax) {
    return InvalidNode(last.node(), absl::StrCat("segment must be at most ", kSegmentPositionsMax));
  }
  return std::move(pipeline_);
}

absl::Status Maker::Add(uint32_t index) {
  const Node& node = definition_.nodes[index];
  for (const uint32_t input : node.inputs) {
    if (!branches_.contains(input)) {
      return InvalidNode(node, absl::StrCat("its input ", input, " is not an operator before it"));
    }
  }
  absl::StatusOr<Branch> branch;
  switch (pipeline_.nodes[index].rule().kind) {
    case OpKind::kSource:
      branch = AddSource(index);
      break;
    case OpKind::kPlan:
      branch = AddPlan(index);
      break;
    case OpKind::kSegment:
      branch = AddSegment(index);
      break;
  }
  if (!branch.ok()) return branch.status();
  branches_.emplace(node.id, *std::move(branch));
  return absl::OkStatus();
}

absl::StatusOr<Branch> Maker::AddSource(uint32_t index) {
  const CheckedNode& node = pipeline_.nodes[index];
  auto spec = SourceSpec(node, manifest_);
  if (!spec.ok()) return spec.status();
  Branch branch = {.tree = pipeline_.tree.size(), .spec = *spec};
  branch.may_drop = node.Text("on_error") == "skip";
  pipeline_.tree.push_back({.op = node.op(),
                            .node = index,
                            .spec = *spec,
                            .parts = {std::max<size_t>(1, spec->leaves.size())}});
  return branch;
}

absl::StatusOr<Branch> Maker::AddPlan(uint32_t index) {
  const CheckedNode& node = pipeline_.nodes[index];
  std::vector<Branch> inputs;
  for (const uint32_t input : node.node().inputs) inputs.push_back(branches_[input]);
  if (node.rule().inputs_max == 1) return AddOnePlan(index, std::move(inputs[0]));

  TreeNode tree = {.op = node.op(), .node = index};
  bool may_drop = false;
  for (const Branch& input : inputs) {
    if (!input.stages.empty()) {
      const Node& stage = definition_.nodes[input.stages.front().node];
      return InvalidNode(node.node(),
                         absl::StrCat("it puts records together, before anything is done with "
                                      "them: move ",
                                      stage.op, " of ", WhereOf(stage), " behind it"));
    }
    tree.children.push_back(input.tree);
    may_drop = may_drop || input.may_drop;
  }
  if (node.op() == Op::kZip) {
    auto spec = ZipSpec(node, inputs);
    if (!spec.ok()) return spec.status();
    tree.spec = *std::move(spec);
    for (const size_t child : tree.children) {
      const auto& parts = pipeline_.tree[child].parts;
      tree.parts.insert(tree.parts.end(), parts.begin(), parts.end());
    }
  } else {
    if (absl::Status status = CheckAlike(node.node(), inputs); !status.ok()) return status;
    tree.spec = inputs[0].spec;
    tree.parts = pipeline_.tree[inputs[0].tree].parts;
  }
  if (node.op() == Op::kMix) {
    if (absl::Status status = CheckMix(node); !status.ok()) return status;
    tree.weights = node.As<std::vector<int64_t>>("weights");
  }
  Branch branch = {.tree = pipeline_.tree.size(), .spec = tree.spec, .may_drop = may_drop};
  pipeline_.tree.push_back(std::move(tree));
  return branch;
}

absl::Status Maker::CheckAlike(const Node& node, const std::vector<Branch>& inputs) {
  for (const Branch& input : inputs) {
    if (!input.spec.known || !inputs[0].spec.known) continue;
    if (input.spec != inputs[0].spec ||
        pipeline_.tree[input.tree].parts != pipeline_.tree[inputs[0].tree].parts) {
      return InvalidNode(node, absl::StrCat("its inputs have different elements: ",
                                            ToText(inputs[0].spec), " and ", ToText(input.spec)));
    }
  }
  return absl::OkStatus();
}

absl::Status Maker::CheckMix(const CheckedNode& node) {
  const auto& weights = node.As<std::vector<int64_t>>("weights");
  if (weights.size() != node.node().inputs.size()) {
    return InvalidNode(node.node(), absl::StrCat("it has ", node.node().inputs.size(),
                                                 " inputs and ", weights.size(), " weights"));
  }
  int64_t sum = 0;
  for (const int64_t weight : weights) {
    if (weight < 1 || weight > kWeightsMax || (sum += weight) > kWeightsMax) {
      return InvalidNode(node.node(),
                         absl::StrCat("weights must be whole numbers from 1 on, of at most ",
                                      kWeightsMax, " together: write 7 and 3, not 0.7 and 0.3"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ElementSpec> Maker::ZipSpec(const CheckedNode& node,
                                           const std::vector<Branch>& inputs) {
  const auto& names = node.As<std::vector<std::string>>("names");
  ElementSpec spec;
  size_t next = 0;
  for (const Branch& input : inputs) {
    spec.known = spec.known && input.spec.known;
    for (Leaf leaf : input.spec.leaves) {
      if (input.spec.single) {
        if (next >= names.size()) {
          return InvalidNode(node.node(),
                             "each input that is a single array needs a name in names");
        }
        leaf.name = names[next++];
        if (!IsLeafName(leaf.name)) {
          return InvalidNode(
              node.node(), absl::StrCat("'", leaf.name, "' is no name: it is empty, too long, or ",
                                        "has a ';'"));
        }
      }
      for (const Leaf& other : spec.leaves) {
        if (other.name == leaf.name) {
          return InvalidNode(node.node(),
                             absl::StrCat("two inputs have a leaf named '", leaf.name, "'"));
        }
      }
      spec.leaves.push_back(std::move(leaf));
    }
  }
  return spec;
}

absl::StatusOr<Branch> Maker::AddOnePlan(uint32_t index, Branch input) {
  const CheckedNode& node = pipeline_.nodes[index];
  const bool counts = node.op() == Op::kTake || node.op() == Op::kSkip;
  if (input.filtered || (input.batched && !counts)) {
    return InvalidNode(node.node(),
                       absl::StrCat("it decides which records come, so it must stand "
                                    "before ",
                                    input.filtered ? "filter" : "batch", ": put it there"));
  }
  LOCKSTEP_DCHECK(input.batch_positions > 0 && input.tree < pipeline_.tree.size());
  TreeNode tree = {.op = node.op(), .node = index, .children = {input.tree}};
  tree.spec = pipeline_.tree[input.tree].spec;
  tree.parts = pipeline_.tree[input.tree].parts;
  if (node.op() == Op::kShuffle) {
    tree.seed = static_cast<uint64_t>(node.Int("seed"));
    tree.reshuffle = node.As<bool>("reshuffle");
  } else {
    tree.count = node.Int("count");
    if (tree.count < (node.op() == Op::kRepeat ? -1 : 0)) {
      return InvalidNode(node.node(), node.op() == Op::kRepeat
                                          ? "count must be 0 or more, or -1 for ever"
                                          : "count must be 0 or more");
    }
    if (counts && tree.count > kInfinite / input.batch_positions) tree.count = kInfinite;
    if (counts && tree.count != kInfinite) tree.count *= input.batch_positions;
  }
  input.tree = pipeline_.tree.size();
  pipeline_.tree.push_back(std::move(tree));
  return input;
}

absl::StatusOr<Branch> Maker::AddSegment(uint32_t index) {
  const CheckedNode& node = pipeline_.nodes[index];
  Branch branch = branches_[node.node().inputs[0]];
  const auto at_node = [&](const absl::Status& status) {
    return InvalidNode(node.node(), std::string(status.message()));
  };
  switch (node.op()) {
    case Op::kMap: {
      auto compiled = CompileMap(node.Text("expression"), branch.spec);
      if (!compiled.ok()) return at_node(compiled.status());
      branch.spec = std::move(compiled->spec);
      break;
    }
    case Op::kFilter: {
      const auto compiled = CompileFilter(node.Text("expression"), branch.spec);
      if (!compiled.ok()) return at_node(compiled.status());
      branch.filtered = branch.may_drop = true;
      break;
    }
    case Op::kMapPython: {
      const std::string& function = node.Text("function");
      const size_t colon = function.find(':');
      if (colon == std::string::npos || colon == 0 || colon + 1 == function.size()) {
        return InvalidNode(node.node(), absl::StrCat("'", function,
                                                     "' is no function; write it as "
                                                     "\"module:function\", of a module that the "
                                                     "workers can import"));
      }
      if (node.Int("timeout_ms") < 1)
        return InvalidNode(node.node(), "timeout_ms must be 1 or more");
      auto spec = ParseSpec(node.Text("spec"));
      if (!spec.ok()) return at_node(spec.status());
      branch.spec = *std::move(spec);
      break;
    }
    default: {  // batch
      LOCKSTEP_DCHECK(node.op() == Op::kBatch);
      const int64_t count = node.Int("count");
      if (count < 1 || count > kBatchElementsMax) {
        return InvalidNode(node.node(),
                           absl::StrCat("count must be from 1 to ", kBatchElementsMax));
      }
      for (Leaf& leaf : branch.spec.leaves) {
        if (leaf.dims.size() >= kRankMax) return InvalidNode(node.node(), "too many dimensions");
        leaf.dims.insert(leaf.dims.begin(), node.As<bool>("drop_remainder") ? count : kUnknownDim);
      }
      branch.batched = true;
      if (branch.batch_positions > kSegmentPositionsMax / count) {
        return InvalidNode(node.node(), "the batches are too large together");
      }
      branch.batch_positions *= count;
      break;
    }
  }
  if (node.op() != Op::kBatch && node.Text("on_error") == "skip") branch.may_drop = true;
  branch.stages.push_back({.node = index, .spec = branch.spec});
  return branch;
}

}  // namespace

absl::StatusOr<Pipeline> MakePipeline(const Definition& definition, const Manifest* manifest) {
  return Maker(definition, manifest).Make();
}

absl::StatusOr<ElementSpec> Check(const Definition& definition) {
  auto pipeline = MakePipeline(definition, nullptr);
  if (!pipeline.ok()) return pipeline.status();
  return std::move(pipeline->spec);
}

absl::StatusOr<ElementSpec> Check(const Definition& definition, const Manifest& manifest) {
  auto pipeline = MakePipeline(definition, &manifest);
  if (!pipeline.ok()) return pipeline.status();
  return std::move(pipeline->spec);
}

bool NeedsManifest(const Definition& definition) {
  return std::any_of(definition.nodes.begin(), definition.nodes.end(), [](const Node& node) {
    const OpRule* rule = FindOp(node.op);
    return rule != nullptr && rule->reads_files;
  });
}

}  // namespace lockstep::plan

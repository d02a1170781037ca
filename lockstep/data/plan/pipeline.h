// A definition taken apart: a tree of sources and plan operators, and a line of segment operators
// behind it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/data/plan/ops.h"
#include "lockstep/data/plan/plan.h"

namespace lockstep::plan {

// A source or a plan operator, with what of its attributes counts.
struct TreeNode {
  Op op = Op::kRange;
  uint32_t node = 0;             // index into Definition::nodes
  std::vector<size_t> children;  // indexes into Pipeline::tree, all before this one
  int64_t count = 0;             // repeat, take, skip; in positions
  uint64_t seed = 0;             // shuffle
  bool reshuffle = false;        // shuffle
  std::vector<int64_t> weights;  // mix
  ElementSpec spec;
  // How the leaves are shared out to the records of one position: one entry, more behind a zip.
  std::vector<size_t> parts;
};

// A definition that was checked, ready to be planned and run.
struct Pipeline {
  std::vector<CheckedNode> nodes;  // as Definition::nodes, which must outlive this
  std::vector<TreeNode> tree;
  size_t root = 0;  // of the tree
  std::vector<Stage> stages;
  ElementSpec spec;
  // Whether an element of a segment may be missing: a filter, or `on_error` "skip".
  bool may_drop = false;
  // Positions that make one element, without what may be dropped: the product of batch sizes.
  int64_t batch_positions = 1;
  int64_t segment = 0;  // as the last node says; 0: not at all
};

// `manifest` may be null: what it would tell is then not known.
absl::StatusOr<Pipeline> MakePipeline(const Definition& definition, const Manifest* manifest);

}  // namespace lockstep::plan

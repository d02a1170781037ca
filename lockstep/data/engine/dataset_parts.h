// What a dataset is made of when it runs.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/data/engine/dataset.h"
#include "lockstep/data/engine/sources.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/data/plan/expression.h"
#include "lockstep/data/plan/ops.h"
#include "lockstep/data/plan/plan.h"

namespace lockstep::engine::internal {

// Immutable once made.
struct DatasetParts {
  plan::Definition definition;
  plan::Manifest manifest;
  DatasetOptions options;
  plan::Plan plan;
  uint64_t spec_hash = 0;
  Allocator scratch;  // for what is no frame yet

  std::vector<plan::CheckedNode> nodes;  // as definition.nodes
  // In the order of plan.sources().
  std::vector<plan::ElementSpec> source_specs;
  std::vector<std::shared_ptr<const RecordSource>> sources;
  // In the order of plan.stages(); empty for those that take none.
  std::vector<plan::CompiledExpression> expressions;
  // Whether nothing can be left out, and all leaves are of fixed size: then rows can be born where
  // the frame has them.
  bool plain_source = false;
};

}  // namespace lockstep::engine::internal

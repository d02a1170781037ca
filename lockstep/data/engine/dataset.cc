#include "lockstep/data/engine/dataset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/data/engine/dataset_parts.h"
#include "lockstep/data/plan/error.h"
#include "lockstep/data/plan/source_spec.h"

namespace lockstep::engine {
namespace {

using internal::DatasetParts;

absl::Status AddStages(DatasetParts& parts) {
  plan::ElementSpec spec = parts.plan.source_spec();
  for (const plan::Stage& stage : parts.plan.stages()) {
    const plan::CheckedNode& node = parts.nodes[stage.node];
    absl::StatusOr<plan::CompiledExpression> compiled = plan::CompiledExpression();
    if (node.op() == plan::Op::kMap) compiled = CompileMap(node.Text("expression"), spec);
    if (node.op() == plan::Op::kFilter) compiled = CompileFilter(node.Text("expression"), spec);
    if (!compiled.ok()) return compiled.status();
    parts.expressions.push_back(*std::move(compiled));
    if (node.op() == plan::Op::kMapPython && parts.options.functions == nullptr) {
      return plan::Error(absl::StatusCode::kFailedPrecondition, plan::kFunctionFailed,
                         absl::StrCat(plan::WhereOf(node.node()),
                                      ": map_python: Python functions are not run here"));
    }
    if (node.op() == plan::Op::kMapPython) {
      const absl::Status allowed = parts.options.functions->Check(node.Text("function"));
      if (!allowed.ok()) {
        return plan::Error(allowed.code(), plan::ReasonOf(allowed),
                           absl::StrCat(plan::WhereOf(node.node()),
                                        ": map_python: ", std::string(allowed.message())));
      }
    }
    spec = stage.spec;
  }
  return absl::OkStatus();
}

absl::Status AddSources(DatasetParts& parts) {
  const internal::SourceContext context = {.roots = parts.options.roots,
                                           .map_files = parts.options.map_files};
  parts.plain_source = true;
  for (const plan::Source& source : parts.plan.sources()) {
    const plan::CheckedNode& node = parts.nodes[source.node];
    auto spec = SourceSpec(node, &parts.manifest);
    if (!spec.ok()) return spec.status();
    auto made = MakeSource(node, *spec, parts.manifest, context);
    if (!made.ok()) return made.status();
    for (const plan::Leaf& leaf : spec->leaves) {
      parts.plain_source = parts.plain_source && !leaf.variable();
    }
    parts.source_specs.push_back(*std::move(spec));
    parts.sources.push_back(*std::move(made));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> Dataset::Open(plan::Definition definition,
                                                             plan::Manifest manifest,
                                                             DatasetOptions options) {
  auto plan = plan::Plan::Make(definition, manifest);
  if (!plan.ok()) return plan.status();
  auto parts = std::make_unique<DatasetParts>(DatasetParts{.definition = std::move(definition),
                                                           .manifest = std::move(manifest),
                                                           .options = std::move(options),
                                                           .plan = *std::move(plan),
                                                           .scratch = HeapAllocator()});
  if (parts->options.allocator == nullptr) parts->options.allocator = HeapAllocator();
  parts->spec_hash = HashOf(parts->plan.spec());
  for (const plan::Node& node : parts->definition.nodes) {
    auto checked = plan::CheckedNode::Make(node, &node == &parts->definition.nodes.back());
    if (!checked.ok()) return checked.status();
    parts->nodes.push_back(*checked);
  }
  absl::Status status = AddSources(*parts);
  status.Update(AddStages(*parts));
  if (!status.ok()) return status;
  return std::make_shared<const Dataset>(std::move(parts));
}

Dataset::Dataset(std::unique_ptr<DatasetParts> parts) : parts_(std::move(parts)) {}
Dataset::~Dataset() = default;

const plan::Definition& Dataset::definition() const { return parts_->definition; }
const plan::Manifest& Dataset::manifest() const { return parts_->manifest; }
const plan::Plan& Dataset::plan() const { return parts_->plan; }

}  // namespace lockstep::engine

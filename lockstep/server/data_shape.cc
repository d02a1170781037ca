#include "lockstep/server/data_shape.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/data/plan/plan.h"
#include "lockstep/wire/native/data_definition.h"
#include "lockstep/wire/native/data_events.h"

namespace lockstep::server {
namespace {

class PlanShape final : public dispatch::Shape {
 public:
  PlanShape(plan::Plan plan, const plan::Definition& definition, const plan::Manifest& manifest)
      : plan_(std::move(plan)), files_(static_cast<int64_t>(manifest.files.size())) {
    std::map<uint32_t, size_t> source_of;  // by the node's id
    for (size_t i = 0; i < plan_.sources().size(); ++i) {
      source_of[definition.nodes[plan_.sources()[i].node].id] = i;
    }
    ends_.resize(plan_.sources().size());
    for (size_t i = 0; i < manifest.files.size(); ++i) {
      const auto source = source_of.find(manifest.files[i].node);
      if (source == source_of.end()) continue;
      std::vector<End>& ends = ends_[source->second];
      const int64_t before = ends.empty() ? 0 : ends.back().record;
      ends.push_back({before + manifest.files[i].records, static_cast<int64_t>(i)});
    }
  }

  int64_t segments() const override { return plan_.segments(); }
  std::optional<int64_t> ElementsOf(int64_t segment) const override {
    return plan_.elements_of(segment);
  }
  int64_t ElementsMost(int64_t segment) const override { return plan_.elements_most(segment); }
  int64_t files() const override { return files_; }
  int64_t FileOf(int64_t segment) const override {
    const plan::Record record = plan_.At(plan_.first_of(segment));
    const std::vector<End>& ends = ends_[record.source];
    const auto at =
        std::upper_bound(ends.begin(), ends.end(), record.index,
                         [](int64_t index, const End& end) { return index < end.record; });
    return at == ends.end() ? 0 : at->file;
  }

 private:
  // Records before `record` and behind the end before it are of `file`.
  struct End {
    int64_t record;
    int64_t file;
  };

  const plan::Plan plan_;
  const int64_t files_;
  std::vector<std::vector<End>> ends_;  // by source
};

dispatch::ShapeOrError Failed(const absl::Status& why) {
  return {nullptr, wire::native::ErrorOf(why)};
}

}  // namespace

dispatch::ShapeOrError MakeDataShape(const std::string& definition, const std::string& manifest) {
  const auto graph = wire::native::DecodeDefinition(definition);
  if (!graph.ok()) return Failed(graph.status());
  const auto files = wire::native::DecodeManifest(manifest);
  if (!files.ok()) return Failed(files.status());
  auto plan = plan::Plan::Make(*graph, *files);
  if (!plan.ok()) return Failed(plan.status());
  return {std::make_shared<PlanShape>(*std::move(plan), *graph, *files), nullptr};
}

}  // namespace lockstep::server

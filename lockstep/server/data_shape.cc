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
      : plan_(std::move(plan)), has_records_(manifest.files.size(), false) {
    std::map<uint32_t, size_t> source_of;  // by the node's id
    for (size_t i = 0; i < plan_.sources().size(); ++i) {
      source_of[definition.nodes[plan_.sources()[i].node].id] = i;
    }
    ends_.resize(plan_.sources().size());
    for (size_t i = 0; i < manifest.files.size(); ++i) {
      const auto source = source_of.find(manifest.files[i].node);
      // Nothing is read of it, and so no segment begins in it.
      if (source == source_of.end() || manifest.files[i].records <= 0) continue;
      has_records_[i] = true;
      std::vector<End>& ends = ends_[source->second];
      const int64_t before = ends.empty() ? 0 : ends.back().record;
      ends.push_back({before + manifest.files[i].records, static_cast<int64_t>(i)});
    }
    // As `FileOf` has it: what comes of no file counts as the first one's.
    for (size_t i = 0; i < ends_.size() && !has_records_.empty(); ++i) {
      if (ends_[i].empty() && plan_.sources()[i].records > 0) has_records_[0] = true;
    }
  }

  int64_t segments() const override { return plan_.segments(); }
  std::optional<int64_t> ElementsOf(int64_t segment) const override {
    return plan_.elements_of(segment);
  }
  int64_t ElementsMost(int64_t segment) const override { return plan_.elements_most(segment); }
  int64_t files() const override { return static_cast<int64_t>(has_records_.size()); }
  int64_t FileOf(int64_t segment) const override {
    // A damaged record may name any segment.
    if (plan_.positions_of(segment) == 0) return 0;
    const int64_t first = plan_.first_of(segment);
    const plan::Record record =
        plan_.in_order() ? plan::Record{.index = first % plan_.epoch_positions()} : plan_.At(first);
    const End* const end = EndOf(record);
    return end == nullptr ? 0 : end->file;
  }
  bool HasRecords(int64_t file) const override { return has_records_[static_cast<size_t>(file)]; }
  int64_t FileUntil(int64_t segment) const override {
    // Where records are out of their order, the next one may begin anywhere.
    if (!plan_.in_order() || plan_.positions_of(segment) == 0) return segment + 1;
    // There is no other file, however often this one is read.
    if (ends_[0].size() <= 1) return plan_.segments();
    const int64_t index = plan_.first_of(segment) % plan_.epoch_positions();
    const End* const end = EndOf({.index = index});
    if (end == nullptr) return segment + 1;
    const int64_t run = (end->record - index - 1) / plan_.segment_positions() + 1;
    return segment + std::min(run, plan_.segments() - segment);
  }

 private:
  // Records before `record` and behind the end before it are of `file`.
  struct End {
    int64_t record;
    int64_t file;
  };

  // Null: the record is of no file.
  const End* EndOf(const plan::Record& record) const {
    const std::vector<End>& ends = ends_[record.source];
    const auto at =
        std::upper_bound(ends.begin(), ends.end(), record.index,
                         [](int64_t index, const End& end) { return index < end.record; });
    return at == ends.end() ? nullptr : &*at;
  }

  const plan::Plan plan_;
  std::vector<bool> has_records_;       // by file
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

#include "lockstep/data/dispatch/dataset_table.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::dispatch {

namespace {

absl::Status NoDataset() { return absl::InvalidArgumentError("the dataset is not known"); }

}  // namespace

const Dataset* DatasetTable::Find(DatasetId id) const {
  const auto found = datasets_.find(id);
  return found == datasets_.end() ? nullptr : &found->second;
}

const Dataset* DatasetTable::FindRegistered(const std::string& name,
                                            const std::string& identity) const {
  const auto& index = name.empty() ? by_identity_ : by_name_;
  const auto found = index.find(name.empty() ? identity : name);
  return found == index.end() ? nullptr : Find(found->second);
}

const Dataset* DatasetTable::FindNamed(const std::string& text) const {
  // Names first: one was chosen, and may look like an identity.
  if (const auto named = by_name_.find(text); named != by_name_.end()) return Find(named->second);
  const auto same = by_identity_.find(text);
  return same == by_identity_.end() ? nullptr : Find(same->second);
}

std::shared_ptr<const Shape> DatasetTable::ShapeOf(DatasetId id, ErrorPtr& why) {
  Dataset& dataset = datasets_.at(id);
  // At the first use: to read the plan costs more than to keep it, and many are never read.
  if (dataset.shape == nullptr) {
    ShapeOrError made = options_.make_shape(dataset.definition, dataset.manifest);
    // Whoever asks takes a null error for success.
    LOCKSTEP_DCHECK(made.shape != nullptr || made.error != nullptr);
    why = made.error;
    dataset.shape = std::move(made.shape);
  }
  return dataset.shape;
}

absl::Status DatasetTable::Apply(const record::DatasetRegistered& r) {
  // No id of a former life is given again.
  ids_.Note(r.dataset.value());
  Dataset& dataset = datasets_[r.dataset];
  dataset.id = r.dataset;
  dataset.name = r.name.empty() ? r.identity : r.name;
  dataset.identity = r.identity;
  dataset.definition = r.definition;
  dataset.element_spec = r.element_spec;
  dataset.needs_manifest = r.needs_manifest;
  // In place of a retired one of the same name, which its users go on to find by its id.
  (r.name.empty() ? by_identity_ : by_name_)[dataset.name] = r.dataset;
  return absl::OkStatus();
}

absl::Status DatasetTable::Apply(const record::DatasetResolved& r) {
  const auto found = datasets_.find(r.dataset);
  if (found == datasets_.end()) return NoDataset();
  found->second.resolved = true;
  found->second.manifest = r.manifest;
  // What was made without the manifest is not of this dataset any more.
  found->second.shape.reset();
  return absl::OkStatus();
}

absl::Status DatasetTable::Apply(const record::DatasetRetired& r) {
  const auto found = datasets_.find(r.dataset);
  if (found == datasets_.end()) return NoDataset();
  found->second.retired = true;
  Unlist(found->second);
  return absl::OkStatus();
}

absl::Status DatasetTable::Apply(const record::DatasetForgotten& r) {
  const auto found = datasets_.find(r.dataset);
  if (found == datasets_.end()) return NoDataset();
  Unlist(found->second);
  // Behind the indices, which are looked up by what it says.
  datasets_.erase(found);
  return absl::OkStatus();
}

void DatasetTable::Unlist(const Dataset& dataset) {
  // Its successor may be listed under the same name by now: that one stays.
  for (auto* index : {&by_name_, &by_identity_}) {
    const auto found = index->find(dataset.name);
    if (found != index->end() && found->second == dataset.id) index->erase(found);
  }
}

void DatasetTable::Snapshot(std::vector<Record>& out) const {
  for (const auto& [id, dataset] : datasets_) {
    // One that is retired comes first, so that its successor is found by the identity.
    out.push_back(
        record::DatasetRegistered{.dataset = id,
                                  .name = dataset.name == dataset.identity ? "" : dataset.name,
                                  .identity = dataset.identity,
                                  .definition = dataset.definition,
                                  .element_spec = dataset.element_spec,
                                  .needs_manifest = dataset.needs_manifest});
    if (dataset.resolved) {
      out.push_back(record::DatasetResolved{.dataset = id, .manifest = dataset.manifest});
    }
    if (dataset.retired) out.push_back(record::DatasetRetired{.dataset = id});
  }
}

// One index for each that is not retired, none for one that is.
bool DatasetTable::Holds() const {
  const auto is_listed = [](const auto& index, const Dataset& dataset) {
    const auto found = index.find(dataset.name);
    return found != index.end() && found->second == dataset.id;
  };
  return std::all_of(datasets_.begin(), datasets_.end(), [&](const auto& entry) {
    const Dataset& dataset = entry.second;
    return is_listed(by_name_, dataset) + is_listed(by_identity_, dataset) ==
           (dataset.retired ? 0 : 1);
  });
}

}  // namespace lockstep::dispatch

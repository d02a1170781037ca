// The datasets that are registered. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/data/dispatch/dispatcher_state.h"
#include "lockstep/data/dispatch/error.h"
#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/options.h"
#include "lockstep/data/dispatch/records.h"
#include "lockstep/data/dispatch/shape.h"

namespace lockstep::dispatch {

// A definition, and what its files are as soon as a worker has listed them. Kept until nobody reads
// it for dataset_timeout.
struct Dataset {
  DatasetId id;
  std::string name;
  std::string identity;
  std::string definition;
  std::string element_spec;
  bool needs_manifest = false;
  bool resolved = false;  // there is a manifest
  bool retired = false;   // its files are not what they were
  std::string manifest;
  std::shared_ptr<const Shape> shape;  // not recorded: made of the rest when it is asked for

  // Whether a worker can read it: there are no files to list, or they are listed.
  bool ready() const { return resolved || !needs_manifest; }
};

// Owns the datasets, which are found by id, by the name that a client gave, or by the identity of
// those without a name. All of it is recorded, and changes by records alone.
//
// Invariant: each dataset that is not retired is in exactly one of the two indices.
// Bounds: Options.datasets_max, definition_bytes_max and manifest_bytes_max, by who commits.
class DatasetTable {
 public:
  // `ids` learns of the ids that records name. Both outlive it.
  DatasetTable(const Options& options, IdCounter& ids) : options_(options), ids_(ids) {}

  size_t size() const { return datasets_.size(); }  // those that are retired as well
  // By id; those that are retired as well.
  const std::map<DatasetId, Dataset>& all() const { return datasets_; }
  // Null: there is none, or it was forgotten.
  const Dataset* Find(DatasetId id) const;
  // Null: there is none, or it is retired. The name is empty where the identity is meant.
  const Dataset* FindRegistered(const std::string& name, const std::string& identity) const;
  // The text is a name or, when nothing has that name, an identity.
  const Dataset* FindNamed(const std::string& text) const;
  // The plan of a dataset that is there and ready; null, and why.
  std::shared_ptr<const Shape> ShapeOf(DatasetId id, ErrorPtr& why);

  // It is found by its name, or by its identity where it has none.
  absl::Status Apply(const record::DatasetRegistered& r);
  // INVALID_ARGUMENT, here and below: no such dataset.
  absl::Status Apply(const record::DatasetResolved& r);
  // It is found by its id only from here on.
  absl::Status Apply(const record::DatasetRetired& r);
  // Nothing of it is left.
  absl::Status Apply(const record::DatasetForgotten& r);
  // What `Apply` makes the same of.
  void Snapshot(std::vector<Record>& out) const;
  bool Holds() const;  // the invariant

 private:
  // It is not found by its name any more.
  void Unlist(const Dataset& dataset);

  const Options& options_;
  IdCounter& ids_;
  std::map<DatasetId, Dataset> datasets_;
  std::map<std::string, DatasetId> by_name_;
  std::map<std::string, DatasetId> by_identity_;  // of those without a name of their own
};

}  // namespace lockstep::dispatch

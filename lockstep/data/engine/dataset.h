// A definition with its manifest, ready to run segments of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/data/engine/element.h"
#include "lockstep/data/engine/functions.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/data/plan/plan.h"

namespace lockstep::engine {

namespace internal {
struct DatasetParts;
}

struct DatasetOptions {
  // As ResolveOptions: checked again, for a manifest may come from elsewhere.
  std::vector<std::string> roots;
  Allocator allocator;  // none: HeapAllocator()
  // What runs `map_python`; none: such a definition is refused with FAILED_PRECONDITION.
  std::shared_ptr<FunctionRunner> functions;
  // Files are mapped, and a file that shrinks under us is caught by a handler of SIGBUS that is
  // chained to what was there. False: they are read by pread, which takes a system call a record.
  bool map_files = false;
};

// Owns the sources' files and indexes. Immutable, thread-safe; runs of segments keep it alive.
class Dataset {
 public:
  // Opens no file yet. INVALID_ARGUMENT as plan::Check.
  static absl::StatusOr<std::shared_ptr<const Dataset>> Open(plan::Definition definition,
                                                             plan::Manifest manifest,
                                                             DatasetOptions options);
  explicit Dataset(std::unique_ptr<internal::DatasetParts> parts);
  ~Dataset();

  // These live as long as the dataset. What `Open` was given:
  const plan::Definition& definition() const;
  const plan::Manifest& manifest() const;  // empty for a dataset without files
  const plan::Plan& plan() const;          // known in full: it has seen the manifest
  const plan::ElementSpec& spec() const { return plan().spec(); }  // of an element
  // For the runs of segments, which share them.
  internal::DatasetParts& parts() const { return *parts_; }

 private:
  const std::unique_ptr<internal::DatasetParts> parts_;
};

}  // namespace lockstep::engine

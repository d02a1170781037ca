// The sources of a dataset: where their records are, and reading many of them at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/data/engine/block.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/data/plan/ops.h"

namespace lockstep::engine::internal {

// Record `index` of the source goes to row `row` of the columns.
struct RowOf {
  int64_t index = 0;
  int64_t row = 0;
};

// A record that cannot be read, which the node's `on_error` decides about.
struct Poisoned {
  int64_t row = 0;
  std::string why;
};

// Reads one source for one run of a segment. Threads: thread-compatible.
class SourceReader {
 public:
  virtual ~SourceReader() = default;

  // Of sources with leaves of fixed size: the columns have memory for all rows. Errors as
  // FileSet::Open and SourceFile::Read.
  virtual absl::Status Read(std::span<const RowOf> rows, std::span<const Column> columns) = 0;

  // Of text and bytes, which have one leaf. `lengths` and `to` go with `rows`; a record may turn
  // out shorter than its place, which `lengths` then says.
  virtual absl::Status Lengths(std::span<const RowOf> rows, std::span<int64_t> lengths);
  // After `Lengths` of the same rows. A damaged record is named in `poisoned`, with the length 0,
  // and is no error of the call.
  virtual absl::Status ReadItems(std::span<const RowOf> rows, std::span<std::byte* const> to,
                                 std::span<int64_t> lengths, std::vector<Poisoned>& poisoned);

  // FAILED_PRECONDITION with kSourceChanged: what was read so far was not what the manifest says.
  virtual absl::Status CheckUnchanged() { return absl::OkStatus(); }
  // "file.tfrecord, record 17 of it".
  virtual std::string NameOf(int64_t index) = 0;
};

// What all runs of a dataset share of a source. Immutable, thread-safe.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // For one run, which must not outlive the source.
  virtual std::unique_ptr<SourceReader> NewReader() const = 0;
};

struct SourceContext {
  std::vector<std::string> roots;
  bool map_files = false;
};

// Of a node that checks; keeps what it needs of node and manifest. Opens no file.
absl::StatusOr<std::shared_ptr<const RecordSource>> MakeSource(const plan::CheckedNode& node,
                                                               const plan::ElementSpec& spec,
                                                               const plan::Manifest& manifest,
                                                               const SourceContext& context);

}  // namespace lockstep::engine::internal

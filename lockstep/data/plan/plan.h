// Which record stands at which position, and which positions make a segment. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/data/plan/definition.h"

namespace lockstep::plan {

// Of positions and segments: there is no end.
inline constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max();

// A record of a source.
struct Record {
  uint32_t source = 0;  // index into Plan::sources()
  int64_t index = 0;    // over all files of the source

  friend bool operator==(const Record&, const Record&) = default;
};

struct Source {
  uint32_t node = 0;  // index into Definition::nodes
  int64_t records = 0;
};

// A segment operator, in the order in which they run.
struct Stage {
  uint32_t node = 0;  // index into Definition::nodes
  ElementSpec spec;   // of what comes out of it
};

namespace internal {
struct PlanTree;
}

// Position p (0, 1, 2, ... across epochs) -> record, in closed form: no history, no memory that
// grows with the dataset. Immutable; copies share.
class Plan {
 public:
  // INVALID_ARGUMENT as `Check`; FAILED_PRECONDITION: it needs a manifest and has none.
  static absl::StatusOr<Plan> Make(const Definition& definition, const Manifest& manifest);

  int64_t positions() const;          // kInfinite: repeat for ever
  int64_t segments() const;           // kInfinite too
  int64_t segment_positions() const;  // of each but the last
  // Of one segment: first position, and how many.
  int64_t first_of(int64_t segment) const { return segment * segment_positions(); }
  int64_t positions_of(int64_t segment) const;  // 0: there is no such segment
  // What the segment yields, when that is arithmetic: no filter, nothing that may be skipped.
  std::optional<int64_t> elements_of(int64_t segment) const;
  // The most that it can yield: when nothing is filtered or skipped.
  int64_t elements_most(int64_t segment) const;
  // Of all segments; kInfinite; none as above.
  std::optional<int64_t> elements() const;
  // Positions of one pass, when the last plan operators are a `repeat`; else positions().
  int64_t epoch_positions() const;

  // One source, repeated or not: position p is its record p % epoch_positions().
  bool in_order() const;

  // Records of one position: more than one with `zip`.
  size_t width() const;
  // The records of `records.size() / width()` positions from `first` on, those of one position side
  // by side. All must exist.
  void Fill(int64_t first, std::span<Record> records) const;
  Record At(int64_t position) const;  // the first of them

  const std::vector<Source>& sources() const;  // one for each node of a source
  const ElementSpec& source_spec() const;      // what the plan part yields
  const std::vector<Stage>& stages() const;    // none: elements are as the plan part yields them
  const ElementSpec& spec() const;             // what the whole yields

 private:
  explicit Plan(std::shared_ptr<const internal::PlanTree> tree) : tree_(std::move(tree)) {}
  std::shared_ptr<const internal::PlanTree> tree_;
};

}  // namespace lockstep::plan

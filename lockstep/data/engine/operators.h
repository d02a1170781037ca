// The operators of one run of a segment, each of which asks the one before it for rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/data/engine/block.h"
#include "lockstep/data/engine/dataset_parts.h"
#include "lockstep/data/plan/expression.h"
#include "lockstep/data/plan/plan.h"

namespace lockstep::engine::internal {

// One step of a run, which asks the step before it for rows. Threads: thread-compatible.
class Operator {
 public:
  virtual ~Operator() = default;
  // From 1 to `rows` rows; 0: the end, also when asked again. After an error the run is over.
  virtual absl::StatusOr<Block> Next(int64_t rows) = 0;
};

// What one node does with an element that cannot be made, within one segment.
class ErrorPolicy {
 public:
  // As the node's `on_error` and `error_budget` say; what is left out is added to `skipped`.
  ErrorPolicy(const plan::CheckedNode& node, int64_t& skipped);

  // OK: the element is left out. Else the error, with the node and the position.
  absl::Status Note(absl::StatusCode code, std::string_view reason, int64_t position,
                    const std::string& what);

 private:
  const std::string where_;
  const bool skip_;
  int64_t budget_;  // -1: any number
  int64_t& skipped_;
};

// How rows should lie that a source makes.
enum class Birth : uint8_t {
  kLoose,    // anywhere: more is done with them
  kBatched,  // as the frame of a batch
  kSingle,   // as the frame of one element
};

// How many rows of a spec make a good piece of work.
int64_t PieceOf(const plan::ElementSpec& spec);

// The first step: makes rows of the records that stand at the segment's positions.
class SourceOperator final : public Operator {
 public:
  // `frames`: for rows that are born in one.
  SourceOperator(const DatasetParts& parts, int64_t first, int64_t count, Birth birth,
                 const Allocator& frames, int64_t& skipped, const std::atomic<bool>* stop);
  // CANCELLED: the run is to stop. All that others leave out has come through here.
  absl::StatusOr<Block> Next(int64_t rows) override;
  // FAILED_PRECONDITION with kSourceChanged: a file was written to since the run began to read it.
  absl::Status CheckUnchanged();

 private:
  struct Input {
    std::unique_ptr<SourceReader> reader;
    const plan::ElementSpec* spec = nullptr;
    ErrorPolicy policy;
    std::vector<RowOf> rows;
  };

  absl::StatusOr<Block> Read(int64_t rows);
  void FillRecords(int64_t rows);
  absl::StatusOr<Block> MakeFixed(int64_t rows);
  absl::Status ReadItems(Column& column, int64_t rows, std::vector<uint8_t>& keep);

  const DatasetParts& parts_;
  const Birth birth_;
  const Allocator& frames_;
  int64_t next_;
  const int64_t end_;
  std::vector<Input> inputs_;
  size_t width_;
  std::vector<plan::Record> records_;  // looked up ahead, of the positions from `next_` on
  size_t records_at_ = 0;
  const std::atomic<bool>* const stop_;
};

// `map` and `filter`: runs an expression over all rows of a block at once.
class MapOperator final : public Operator {
 public:
  // `filter`: the expression is one bool, and rows for which it is false are left out.
  MapOperator(std::unique_ptr<Operator> input, plan::CompiledExpression expression, bool filter,
              const plan::CheckedNode& node, const Allocator& scratch, int64_t& skipped);
  // INVALID_ARGUMENT with kRecordPoisoned: it cannot be computed for a row, and the node does not
  // leave that out. Else the input's.
  absl::StatusOr<Block> Next(int64_t rows) override;

 private:
  const std::unique_ptr<Operator> input_;
  const plan::CompiledExpression expression_;
  const bool filter_;
  const Allocator& scratch_;
  ErrorPolicy policy_;
};

// `batch`: makes one row of so many; the last one may have fewer.
class BatchOperator final : public Operator {
 public:
  // `piece`: how many rows to ask for at least.
  BatchOperator(std::unique_ptr<Operator> input, int64_t count, bool drop_remainder, int64_t piece,
                const Allocator& allocator);
  // One row, a batch; `rows` does not count. INVALID_ARGUMENT as `Batch`.
  absl::StatusOr<Block> Next(int64_t rows) override;

 private:
  const std::unique_ptr<Operator> input_;
  const int64_t count_;
  const bool drop_remainder_;
  const int64_t piece_;
  const Allocator& allocator_;
  Block left_;  // rows that came with the last batch's
  bool ended_ = false;
};

}  // namespace lockstep::engine::internal

// `map_python` within a run of a segment.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/data/engine/functions.h"
#include "lockstep/data/engine/operators.h"

namespace lockstep::engine::internal {

// Gives the function some elements at a time, and holds what comes back against its spec. Rows of
// different shape come out in blocks of their own.
class FunctionOperator final : public Operator {
 public:
  // The frames that the function is given say `segment`. What `node` leaves out adds to `skipped`.
  FunctionOperator(std::unique_ptr<Operator> input, Function function,
                   std::shared_ptr<FunctionRunner> runner, const plan::CheckedNode& node,
                   int64_t segment, const Allocator& scratch, int64_t& skipped);
  // INVALID_ARGUMENT with kFunctionFailed: an element could not be made, or not as the spec says,
  // and the node does not leave it out. Else as the input, and FunctionRunner::Call.
  absl::StatusOr<Block> Next(int64_t rows) override;

 private:
  absl::Status Refill(int64_t rows);
  absl::StatusOr<Block> RowOf(const Element& element) const;
  absl::StatusOr<Block> Join(std::span<const Block> rows) const;

  const std::unique_ptr<Operator> input_;
  const Function function_;
  const std::shared_ptr<FunctionRunner> runner_;
  const int64_t segment_;
  const Allocator& scratch_;
  ErrorPolicy policy_;
  std::deque<Block> ready_;
  bool ended_ = false;
};

}  // namespace lockstep::engine::internal

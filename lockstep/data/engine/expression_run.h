// Runs a compiled expression over all rows of a block at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/data/engine/block.h"
#include "lockstep/data/plan/expression.h"

namespace lockstep::engine::internal {

// The leaves' columns. A row that cannot be computed (a division of whole numbers by zero, an index
// outside) is marked in `bad`, which has an entry a row, by why; its values mean nothing. Leaves
// that are fields share the block's memory. INVALID_ARGUMENT: the shapes of the rows do not go
// together; else as `allocator` fails.
absl::StatusOr<std::vector<Column>> Evaluate(const plan::CompiledExpression& expression,
                                             const Block& block, const Allocator& allocator,
                                             std::vector<const char*>& bad);

}  // namespace lockstep::engine::internal

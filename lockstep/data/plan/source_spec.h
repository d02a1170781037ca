// What each source yields, and how many records it has. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/data/plan/ops.h"

namespace lockstep::plan {

// Checks the source's own attributes too. `manifest` may be null.
absl::StatusOr<ElementSpec> SourceSpec(const CheckedNode& source, const Manifest* manifest);

// Of a source whose attributes are sound.
int64_t RecordsOf(const CheckedNode& source, const Manifest& manifest);

// What a record takes on average; at least 1.
int64_t BytesOfRecord(const CheckedNode& source, const ElementSpec& spec, const Manifest& manifest);

// The product, as far as the dimensions are known; kInfinite when it is more than 2^62.
int64_t ItemsOf(const std::vector<int64_t>& dims);

}  // namespace lockstep::plan

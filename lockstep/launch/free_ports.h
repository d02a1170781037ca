// Ports that nobody listens at.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::launch {

// `count` different ones of the loopback address, or of all of this host's. Somebody else may take
// one before its user does; there is no better way for programs that have to be told theirs.
absl::StatusOr<std::vector<uint16_t>> FreePorts(int32_t count, bool loopback);

}  // namespace lockstep::launch

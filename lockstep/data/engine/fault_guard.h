// Reading mapped files that may shrink under us.
#pragma once

#include <cstddef>
#include <span>

#include "lockstep/data/engine/source_file.h"

namespace lockstep::engine {

// Copies out of the mapping; false: a page of it is gone. The first call puts a handler of SIGBUS
// in place, which passes on whatever was not met by such a copy.
bool CopyGuarded(const std::byte* mapped, std::span<const ReadRequest> requests);

}  // namespace lockstep::engine

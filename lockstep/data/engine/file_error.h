// What a failed system call says of a dataset's file.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace lockstep::engine {

// NOT_FOUND with kSourceMissing, PERMISSION_DENIED with kPathRefused, or UNAVAILABLE.
absl::Status FileError(const std::string& path, int error);

}  // namespace lockstep::engine

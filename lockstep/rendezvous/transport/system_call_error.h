// Errors of system calls: which call, what the kernel said, what to do about it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lockstep::transport {

// The code is the one that belongs to `error`: RESOURCE_EXHAUSTED for EMFILE, and so on.
inline absl::Status SystemCallError(const std::string& call, int error, const std::string& advice) {
  return absl::ErrnoToStatus(error, absl::StrCat(call, " failed; ", advice));
}

}  // namespace lockstep::transport

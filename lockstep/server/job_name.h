// Which names a job can have. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace lockstep::server {

// Letters, digits, '.', '_' and '-', up to 128; INVALID_ARGUMENT says so.
absl::Status CheckJobName(const std::string& name);

}  // namespace lockstep::server

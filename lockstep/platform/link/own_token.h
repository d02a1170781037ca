// The token that this process shows to servers.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::link {

// What stands in the file that LOCKSTEP_TOKEN_FILE names, without white space around it; empty when
// the variable is not set. Read each time, so that a new token takes effect with the next
// connection. FAILED_PRECONDITION or NOT_FOUND, `token_file`: it cannot be read, others than its
// owner can, or it is longer than a token. Threads: any, as getenv.
absl::StatusOr<std::string> OwnToken();

}  // namespace lockstep::link

// Finds the file that a command's name means.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::launch {

// As a shell does: a name with a slash is a path, another is looked for in `path_variable` (folders
// with colons between). NOT_FOUND when there is nothing of that name, FAILED_PRECONDITION when what
// is there cannot be executed.
absl::StatusOr<std::string> FindProgram(const std::string& name, const std::string& path_variable);

// `lockstep-server`: where LOCKSTEP_SERVER says, else beside this program, else in PATH.
absl::StatusOr<std::string> FindServer();
// `lockstep-agent`: where LOCKSTEP_AGENT_PROGRAM says, else likewise.
absl::StatusOr<std::string> FindAgent();

}  // namespace lockstep::launch

// Which job a command is about.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/cli/run_file.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::cli {

// The job that the command line or the server's join string names, or, when they name none, the
// only one that there is. When the command line names no server either, runs of this user on this
// host count too (run_file.h), and `self` asks the server of the one that is found from then on.
// The error says what there is to choose from.
absl::StatusOr<wire::native::JobStatus> JobMeant(ServerCommand& self, const std::string& given,
                                                 const std::vector<KnownRun>& runs = LivingRuns());

// Says why none was found, and returns the exit code: to name no job is a wrong command line.
int FailToFind(ServerCommand& self, const absl::Status& status);

}  // namespace lockstep::cli

// `lockstep barriers JOB`: the open barriers, who is there and who is missing.
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/observe/tables.h"

namespace lockstep::cli {

void AddBarriers(CLI::App& app, Invocation& invocation) {
  AddJobCommand(app, invocation, "barriers",
                "List the open barriers: members present, members missing and what those do",
                observe::BarriersTable, observe::BarriersJson);
}

}  // namespace lockstep::cli

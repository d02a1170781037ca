// `lockstep members JOB`: one row a member.
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/observe/tables.h"

namespace lockstep::cli {

void AddMembers(CLI::App& app, Invocation& invocation) {
  AddJobCommand(app, invocation, "members",
                "List the members: condition, last heard, step, phase, process, what they wait for",
                observe::MembersTable, observe::MembersJson);
}

}  // namespace lockstep::cli

// `lockstep hosts JOB`: one row a host that has an agent.
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/observe/tables.h"

namespace lockstep::cli {

void AddHosts(CLI::App& app, Invocation& invocation) {
  AddJobCommand(app, invocation, "hosts",
                "List the hosts with an agent: processes, last heard, round-trip time, version",
                observe::HostsTable, observe::HostsJson);
}

}  // namespace lockstep::cli

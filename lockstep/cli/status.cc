// `lockstep status [JOB]`: who is in, who is missing, who waits for whom, what went wrong.
#include <algorithm>
#include <memory>

#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/observe/status_text.h"

namespace lockstep::cli {

void AddStatus(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand(
      "status", "Show members (present, missing, suspect, lost), who waits for whom, and errors");
  auto job = std::make_shared<std::string>();
  command->add_option("job", *job, "Job. Default: the job in the join string, else all jobs")
      ->type_name("JOB");
  AddServerCommand(*command, invocation, "status", [job](ServerCommand& self) -> int {
    const auto reply = self.Status(job->empty() ? self.joined_job() : *job);
    if (!reply.ok()) return self.Fail(reply.status());
    self.out() << (self.json() ? observe::StatusJson(*reply) : observe::StatusTable(*reply));
    const bool trouble = std::any_of(reply->jobs.begin(), reply->jobs.end(), observe::InTrouble);
    return trouble ? kExitFailed : kExitOk;
  });
}

}  // namespace lockstep::cli

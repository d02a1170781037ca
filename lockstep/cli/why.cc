// `lockstep why JOB`: what is the matter with it, in sentences.
#include "lockstep/observe/why.h"

#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"

namespace lockstep::cli {

void AddWhy(CLI::App& app, Invocation& invocation) {
  AddJobCommand(app, invocation, "why",
                "What is the matter with a job: what went wrong first, what followed, what to do",
                observe::WhyText, observe::WhyJson, [](const wire::native::JobStatus& job) -> int {
                  const bool trouble = observe::Diagnose(job).verdict == observe::Verdict::kTrouble;
                  return trouble ? kExitFailed : kExitOk;
                });
}

}  // namespace lockstep::cli

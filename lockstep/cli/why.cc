// `lockstep why [JOB]`: what is the matter with it and because of whom, in sentences.
#include "lockstep/observe/why.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/cli/data_waits.h"
#include "lockstep/cli/gather_stacks.h"
#include "lockstep/cli/job_meant.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"

namespace lockstep::cli {
namespace {

// What people wait for at most, for what launchers tell.
constexpr absl::Duration kStacksTimeout = absl::Seconds(3);

int Why(ServerCommand& self, const std::string& name) {
  const auto meant = JobMeant(self, name);
  if (!meant.ok()) return FailToFind(self, meant.status());
  const wire::native::JobStatus& job = *meant;
  // Also when all seems well: of a collective that hangs the server knows nothing.
  const TakenSnapshots taken =
      TakeSnapshots(self.coordinator(), job, std::min(self.timeout(), kStacksTimeout));
  if (!taken.refused.ok()) {
    self.Say(absl::StrCat("stacks are left out: ", std::string(taken.refused.message())));
  }
  const std::vector<observe::StackSnapshot>& snapshots = taken.all;
  const std::vector<observe::DataWait> data = DataWaitsAt(self.coordinator(), job, self.timeout());
  const observe::Verdict verdict = observe::Diagnose(job, snapshots, data).verdict;
  self.out() << (self.json() ? observe::WhyJson(job, snapshots, data)
                             : observe::WhyText(job, snapshots, data));
  return verdict == observe::Verdict::kTrouble ? kExitFailed : kExitOk;
}

}  // namespace

void AddWhy(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand(
      "why", "Explain the state of a job: what went wrong first, what followed, what to do");
  auto job = std::make_shared<std::string>();
  command->add_option("job", *job, "Job. Default: the only one")->type_name("JOB");
  AddServerCommand(*command, invocation, "why",
                   [job](ServerCommand& self) { return Why(self, *job); });
}

}  // namespace lockstep::cli

// `lockstep why JOB`: what is the matter with it, in sentences; and where its processes are.
#include "lockstep/observe/why.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "lockstep/cli/gather_stacks.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"

namespace lockstep::cli {
namespace {

// What people wait for at most, for what is only said besides.
constexpr absl::Duration kStacksTimeout = absl::Seconds(3);

// "where they are: 3 of 4 wait in all_reduce, ..."; empty when nobody tells.
std::string WhereTheyAre(ServerCommand& self, const wire::native::JobStatus& job) {
  const bool runs = std::any_of(job.members.begin(), job.members.end(), [](const auto& member) {
    return member.pid > 0 && member.condition != wire::native::MemberCondition::kLost &&
           member.condition != wire::native::MemberCondition::kLeft;
  });
  if (!runs) return "";
  const auto gathered = GatherStacks(self.coordinator(), job, {}, /*native=*/false,
                                     std::min(self.timeout(), kStacksTimeout));
  if (!gathered.ok() || gathered->processes.empty()) return "";
  return absl::StrCat("where they are: ", launch::StacksSentence(gathered->processes),
                      "\n  (lockstep stacks ", job.job, " shows all of it)\n");
}

int Why(ServerCommand& self, const std::string& name) {
  const auto reply = self.Status(name);
  if (!reply.ok()) return self.Fail(reply.status());
  if (reply->jobs.size() != 1) {
    return self.Fail(absl::InternalError("the server told of another job"));
  }
  const wire::native::JobStatus& job = reply->jobs.front();
  const observe::Verdict verdict = observe::Diagnose(job).verdict;
  self.out() << (self.json() ? observe::WhyJson(job) : observe::WhyText(job));
  self.out().flush();
  // Also when all seems well: of a collective that hangs the server knows nothing.
  if (!self.json()) self.out() << WhereTheyAre(self, job);
  return verdict == observe::Verdict::kTrouble ? kExitFailed : kExitOk;
}

}  // namespace

void AddWhy(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand(
      "why", "What is the matter with a job: what went wrong first, what followed, what to do");
  auto job = std::make_shared<std::string>();
  command->add_option("job", *job, "Which job")->type_name("JOB")->required();
  AddServerCommand(*command, invocation, "why",
                   [job](ServerCommand& self) { return Why(self, *job); });
}

}  // namespace lockstep::cli

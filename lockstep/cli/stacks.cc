// `lockstep stacks [JOB]`: where the processes of a job are in their code.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/cli/gather_stacks.h"
#include "lockstep/cli/job_meant.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"

namespace lockstep::cli {
namespace {

struct StacksArguments {
  std::string job;
  bool missing = false;
  bool native = false;
  bool signal = false;
};

int Stacks(ServerCommand& self, const StacksArguments& given) {
  const auto meant = JobMeant(self, given.job);
  if (!meant.ok()) return FailToFind(self, meant.status());
  const wire::native::JobStatus& job = *meant;
  std::vector<int32_t> members;
  if (given.missing) {
    members = MissingMembers(job);
    if (members.empty()) {
      self.Say("nobody is waited for");
      return kExitOk;
    }
  }
  const auto gathered =
      GatherStacks(self.coordinator(), job, members,
                   {.native = given.native, .signal = given.signal}, self.timeout());
  if (!gathered.ok()) return self.Fail(gathered.status());
  self.out() << (self.json() ? absl::StrCat(launch::EncodeStacks(gathered->processes), "\n")
                             : launch::StacksText(gathered->processes));
  if (!gathered->silent.empty()) {
    self.Say(absl::StrCat("no launcher has told of ", absl::StrJoin(gathered->silent, ", "),
                          " within ", absl::FormatDuration(self.timeout()),
                          ": it is gone, busy, or another program than lockstep run started them"));
  }
  return gathered->processes.empty() ? kExitTimeout : kExitOk;
}

}  // namespace

void AddStacks(CLI::App& app, Invocation& invocation) {
  CLI::App* const command =
      app.add_subcommand("stacks", "Where the processes of a job are in their code");
  auto given = std::make_shared<StacksArguments>();
  command->add_option("job", given->job, "Which job; the only one if not given")->type_name("JOB");
  command->add_flag("--missing", given->missing, "Only of members that others wait for");
  command->add_flag("--native", given->native,
                    "By gdb, of C and C++ too; each process stands still for seconds");
  command->add_flag("--signal", given->signal,
                    "Signal those whose Python does not answer: a sleep or a wait in C ends early");
  AddServerCommand(*command, invocation, "stacks",
                   [given](ServerCommand& self) { return Stacks(self, *given); });
}

}  // namespace lockstep::cli

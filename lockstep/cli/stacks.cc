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
      self.Say("no member is being waited for");
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
    self.Say(absl::StrCat("no launcher has reported on ", absl::StrJoin(gathered->silent, ", "),
                          " within ", absl::FormatDuration(self.timeout()),
                          ": the launcher has ended or is busy, or a program other than "
                          "lockstep run started them"));
  }
  return gathered->processes.empty() ? kExitTimeout : kExitOk;
}

}  // namespace

void AddStacks(CLI::App& app, Invocation& invocation) {
  CLI::App* const command =
      app.add_subcommand("stacks", "Show where the processes of a job are in their code");
  auto given = std::make_shared<StacksArguments>();
  command->add_option("job", given->job, "Job. Default: the only one")->type_name("JOB");
  command->add_flag("--missing", given->missing, "Show only members that others wait for");
  command->add_flag("--native", given->native,
                    "Also show C and C++ frames, by gdb. Stops each process for seconds");
  command->add_flag(
      "--signal", given->signal,
      "Signal processes whose Python does not answer. May interrupt a sleep or poll in C");
  AddServerCommand(*command, invocation, "stacks",
                   [given](ServerCommand& self) { return Stacks(self, *given); });
}

}  // namespace lockstep::cli

// `lockstep rendezvous JOB`: who waits for which value, and what nobody has received.
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/limits.h"
#include "lockstep/cli/job_session.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/observe/rendezvous_text.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/rendezvous_keys.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::cli {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

// The names of those that take part, by member.
absl::StatusOr<std::map<int32_t, std::string>> WhoTakesPart(ServerCommand& self,
                                                            const std::string& job,
                                                            link::Client& client) {
  std::map<int32_t, std::string> members;
  ListKeys page{.directory = std::string(kRendezvousCards), .limit = kMembersMax};
  for (bool more = true; more;) {
    const auto cards = client.Call(page, self.timeout());
    if (!cards.ok()) return cards.status();
    for (const Entry& entry : cards->entries) {
      int32_t member = 0;
      if (absl::SimpleAtoi(entry.key.substr(entry.key.rfind('/') + 1), &member)) {
        members[member] = absl::StrCat("member ", member);
      }
      page.after = entry.key;
    }
    more = cards->more && !cards->entries.empty();
  }
  const auto status = self.Status(job);
  if (!status.ok()) return status.status();
  for (const JobStatus& each : status->jobs) {
    for (const MemberStatus& member : each.members) {
      if (members.contains(member.index)) members[member.index] = member.name;
    }
  }
  return members;
}

// Takes what members answered to this look out of `awaited`.
void TakeReports(const WatchKeysReply& reply, const std::string& look,
                 std::map<int32_t, std::string>& awaited, observe::RendezvousAnswers& answers) {
  for (const KeyChange& change : reply.changes) {
    if (!change.value) continue;
    auto report = Decode<RendezvousReport>(change.value->data);
    if (!report.ok() || report->look != look || awaited.erase(report->member) == 0) continue;
    answers.reports.push_back(*std::move(report));
  }
}

absl::StatusOr<observe::RendezvousAnswers> Look(ServerCommand& self, const std::string& job,
                                                absl::Duration wait) {
  auto client = OpenJob(self, job);
  if (!client.ok()) return client.status();
  auto awaited = WhoTakesPart(self, job, **client);
  if (!awaited.ok()) return awaited.status();

  const Time deadline = runtime::MonotonicNow() + wait;
  const std::string look = absl::StrCat(::getpid(), "-", runtime::MonotonicNow().nanoseconds());
  const auto set = (*client)->Call(
      SetKey{.key = std::string(kRendezvousLook), .value = {look}, .overwrite = true},
      self.timeout());
  if (!set.ok()) return set.status();

  observe::RendezvousAnswers answers = {.job = job};
  int64_t after = set->revision;
  while (!awaited->empty()) {
    const absl::Duration left = deadline - runtime::MonotonicNow();
    if (left <= absl::ZeroDuration()) break;
    const auto changes =
        (*client)->Call(WatchKeys{.key = std::string(kRendezvousReports), .after = after}, left);
    if (absl::IsDeadlineExceeded(changes.status())) break;
    if (!changes.ok()) return changes.status();
    TakeReports(*changes, look, *awaited, answers);
    after = changes->revision;
  }
  std::sort(answers.reports.begin(), answers.reports.end(),
            [](const auto& a, const auto& b) { return a.member < b.member; });
  for (auto& [member, name] : *awaited) answers.silent.push_back(std::move(name));
  return answers;
}

}  // namespace

void AddRendezvous(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand(
      "rendezvous", "Show the tensors between members: pending receives and unreceived values");
  struct Arguments {
    std::string job;
    std::string wait = "2s";
  };
  auto given = std::make_shared<Arguments>();
  command->add_option("job", given->job, "Job")->type_name("JOB")->required();
  command->add_option("--wait", given->wait, "Maximum time to wait for the members' answers")
      ->type_name("DURATION")
      ->capture_default_str();
  AddServerCommand(*command, invocation, "rendezvous", [given](ServerCommand& self) {
    const auto wait = ParseDuration("--wait", given->wait);
    if (!wait.ok()) {
      self.Say(std::string(wait.status().message()));
      return static_cast<int>(kExitUsage);
    }
    const auto answers = Look(self, given->job, *wait);
    if (!answers.ok()) return self.Fail(answers.status());
    self.out() << (self.json() ? observe::RendezvousJson(*answers)
                               : observe::RendezvousTable(*answers));
    return static_cast<int>(answers->silent.empty() ? kExitOk : kExitFailed);
  });
}

}  // namespace lockstep::cli

// `lockstep tell-processes JOB`: for launchers other than `lockstep run`. They write what happens
// to their processes to its standard input; it tells the server, and answers `lockstep stacks`.
#include <unistd.h>

#include <array>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lockstep/cli/run_stacks.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/link/reporter.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::cli {
namespace {

using launch::ProcessReport;
using wire::native::ProcessEvent;

// How long the last reports may take when the launcher has gone.
constexpr absl::Duration kFlushTimeout = absl::Seconds(2);
// A line of numbers is shorter.
constexpr size_t kLineBytesMax = 256;

constexpr char kUsage[] =
    "size N | started MEMBER PID | ended MEMBER PID EXIT_CODE SIGNAL, each on a line";

std::string HostName() {
  std::array<char, 256> name = {};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// The numbers after the first word; nothing when they are not `count` numbers from 0 up.
std::optional<std::vector<int64_t>> NumbersOf(const std::vector<std::string>& words, size_t count) {
  if (words.size() != count + 1) return std::nullopt;
  std::vector<int64_t> numbers;
  for (size_t i = 1; i < words.size(); ++i) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(words[i], &number) || number < 0) return std::nullopt;
    numbers.push_back(number);
  }
  return numbers;
}

class Teller {
 public:
  Teller(ServerCommand& self, std::string job)
      : self_(self),
        job_(std::move(job)),
        host_(HostName()),
        reporter_(self.coordinator(), {.who = "lockstep tell-processes"}),
        stacks_("", host_, "task") {}

  // False: the line says nothing that is known.
  bool Take(const std::string& line) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "size") return TakeSize(NumbersOf(words, 1));
    if (words[0] == "started") return TakeProcess(ProcessEvent::kStarted, NumbersOf(words, 2));
    if (words[0] == "ended") return TakeProcess(ProcessEvent::kEnded, NumbersOf(words, 4));
    return false;
  }

  void Finish() { reporter_.Flush(kFlushTimeout); }

 private:
  // The job may be there already; then it keeps its size.
  bool TakeSize(const std::optional<std::vector<int64_t>>& numbers) {
    if (!numbers || numbers->front() < 1 || numbers->front() > INT32_MAX) return false;
    const auto client = self_.Connect();
    if (client.ok()) {
      (void)(*client)->Call(
          wire::native::CreateJob{.job = job_, .size = static_cast<int32_t>(numbers->front())},
          self_.timeout());
    }
    if (started_) return true;
    started_ = true;
    stacks_.Start(
        {.job = job_, .link = self_.coordinator()}, [](auto told) { told(RunStacks::LastLines()); },
        [](const std::string&) {});
    return true;
  }

  bool TakeProcess(ProcessEvent event, const std::optional<std::vector<int64_t>>& numbers) {
    if (!numbers || numbers->at(0) > INT32_MAX) return false;
    const bool ended = event == ProcessEvent::kEnded;
    const auto member = static_cast<int32_t>(numbers->at(0));
    const int64_t pid = numbers->at(1);
    const int exit_code = ended ? static_cast<int>(numbers->at(2)) : 0;
    const int signal = ended ? static_cast<int>(numbers->at(3)) : 0;
    stacks_.Take({.kind = ended ? ProcessReport::Kind::kEnded : ProcessReport::Kind::kStarted,
                  .member = MemberIndex(member),
                  .pid = pid,
                  .ending = {.exit_code = exit_code, .signal = signal}});
    reporter_.Report({.job = job_,
                      .member = member,
                      .event = event,
                      .host = host_,
                      .pid = pid,
                      .exit_code = exit_code,
                      .signal = signal});
    return true;
  }

  ServerCommand& self_;
  const std::string job_;
  const std::string host_;
  link::Reporter reporter_;
  RunStacks stacks_;
  bool started_ = false;  // `stacks_`
};

int TellProcesses(ServerCommand& self, const std::string& job) {
  Teller teller(self, job);
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line.size() > kLineBytesMax || !teller.Take(line)) {
      self.Say(absl::StrCat("a line says nothing that is known; ", kUsage));
      return kExitUsage;
    }
  }
  teller.Finish();
  return kExitOk;
}

}  // namespace

void AddTellProcesses(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand(
      "tell-processes", "For other launchers: tell the server about processes, on standard input");
  command->footer(absl::StrCat("Takes ", kUsage, "; ends with its input."));
  auto job = std::make_shared<std::string>();
  command->add_option("job", *job, "Which job; made if it is not there")
      ->type_name("JOB")
      ->required();
  AddServerCommand(*command, invocation, "tell-processes",
                   [job](ServerCommand& self) { return TellProcesses(self, *job); });
}

}  // namespace lockstep::cli

// `lockstep report-processes JOB`: for launchers other than `lockstep run`. They write what happens
// to their processes to its standard input; it tells the server, and answers `lockstep stacks`.
#include <unistd.h>

#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lockstep/base/mutex.h"
#include "lockstep/cli/run_stacks.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/launch/exception_pipe.h"
#include "lockstep/launch/python_hook.h"
#include "lockstep/launch/run_folder.h"
#include "lockstep/platform/link/reporter.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::cli {
namespace {

using launch::ProcessReport;
using wire::native::ProcessEvent;

// How long the last reports may take when the launcher has gone.
constexpr absl::Duration kFlushTimeout = absl::Seconds(2);
// A line of numbers is shorter.
constexpr size_t kLineBytesMax = 256;
// Processes that told of an exception before their launcher told of them: `early_exceptions_max`.
constexpr size_t kRaisedMax = 1024;

constexpr char kUsage[] =
    "size N | started MEMBER PID | ended MEMBER PID EXIT_CODE SIGNAL, one per line";

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

// What the hook in Python processes tells of exceptions, on a thread of its own. Removes the folder
// at its end.
class HookFolder {
 public:
  using Raised = launch::ExceptionPipe::Raised;
  // `folder` may be empty: then nothing is ever told.
  HookFolder(std::string folder, Raised raised)
      : folder_(std::move(folder)),
        pipe_(loop_, folder_, std::move(raised)),
        thread_([this] { loop_.Run(); }) {}
  ~HookFolder() {
    loop_.Post([this] { loop_.Stop(); });
    thread_.join();
    launch::RemoveRunFolder(folder_);
  }
  HookFolder(const HookFolder&) = delete;
  HookFolder& operator=(const HookFolder&) = delete;

 private:
  const std::string folder_;
  runtime::Loop loop_;
  launch::ExceptionPipe pipe_;
  std::thread thread_;
};

class Teller {
 public:
  Teller(ServerCommand& self, std::string job, const std::string& folder)
      : self_(self),
        job_(std::move(job)),
        host_(runtime::HostName()),
        reporter_(self.coordinator(), {.who = "lockstep report-processes"}),
        stacks_({.folder = folder, .host = host_, .role = "task"}),
        hook_(folder, [this](const launch::RaisedException& raised) { Raised(raised); }) {}

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
    if (!ended) Follow(member, pid);
    return true;
  }

  // The process may have told of an exception before its launcher told of it.
  void Follow(int32_t member, int64_t pid) {
    const MutexLock lock(mutex_);
    members_[pid] = member;
    const auto early = raised_.find(pid);
    if (early == raised_.end()) return;
    ReportRaised(member, {.pid = pid, .text = early->second});
    raised_.erase(early);
  }

  // On the hook's thread.
  void Raised(const launch::RaisedException& raised) {
    const MutexLock lock(mutex_);
    const auto found = members_.find(raised.pid);
    if (found != members_.end()) return ReportRaised(found->second, raised);
    if (raised_.size() < kRaisedMax) raised_[raised.pid] = raised.text;
  }

  void ReportRaised(int32_t member, const launch::RaisedException& raised) {
    reporter_.Report({.job = job_,
                      .member = member,
                      .event = ProcessEvent::kEnding,
                      .host = host_,
                      .pid = raised.pid,
                      .error = raised.text});
  }

  ServerCommand& self_;
  const std::string job_;
  const std::string host_;
  link::Reporter reporter_;
  RunStacks stacks_;
  bool started_ = false;  // `stacks_`
  Mutex mutex_;
  std::map<int64_t, int32_t> members_ ABSL_GUARDED_BY(mutex_);  // by pid, of all that were told
  // By pid, of those that were not told yet.
  std::map<int64_t, std::string> raised_ ABSL_GUARDED_BY(mutex_);
  HookFolder hook_;  // last: it calls the above
};

// A folder with a hook for the children of the process `launcher`; empty: there can be none.
std::string MakeHook(int64_t launcher) {
  const auto folder = launch::MakeRunFolder();
  if (!folder.ok()) return "";
  if (launch::WritePythonHook(*folder, launcher).ok()) return *folder;
  launch::RemoveRunFolder(*folder);
  return "";
}

int ReportProcesses(ServerCommand& self, const std::string& job, int64_t launcher) {
  std::string folder;
  if (launcher > 0) {
    folder = MakeHook(launcher);
    self.out() << folder << std::endl;  // at once: the launcher waits for it
  }
  Teller teller(self, job, folder);
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line.size() > kLineBytesMax || !teller.Take(line)) {
      self.Say(absl::StrCat("unknown line on standard input; write ", kUsage));
      return kExitUsage;
    }
  }
  teller.Finish();
  return kExitOk;
}

}  // namespace

void AddReportProcesses(CLI::App& app, Invocation& invocation) {
  CLI::App* const command =
      app.add_subcommand("report-processes",
                         "Report processes to the server from standard input, for other launchers");
  command->footer(absl::StrCat("Standard input: ", kUsage, "."));
  auto job = std::make_shared<std::string>();
  command->add_option("job", *job, "Job. Created if it does not exist")
      ->type_name("JOB")
      ->required();
  auto launcher = std::make_shared<int64_t>(0);
  command
      ->add_option("--hook-for", *launcher,
                   "Print, as the first line, a directory for the PYTHONPATH of this process's "
                   "Python children, with which they report their stacks and exceptions")
      ->type_name("PID")
      ->check(CLI::PositiveNumber);
  AddServerCommand(*command, invocation, "report-processes", [job, launcher](ServerCommand& self) {
    return ReportProcesses(self, *job, *launcher);
  });
}

}  // namespace lockstep::cli

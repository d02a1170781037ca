#include "lockstep/sim/launcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::sim {
namespace {

constexpr int kSigkill = 9;

}  // namespace

Launcher::Launcher(Schedule& schedule, Network& network, Server& server, Trace& trace,
                   const Scenario& scenario, Random random, Work& work)
    : schedule_(schedule),
      network_(network),
      server_(server),
      trace_(trace),
      scenario_(scenario),
      random_(random),
      work_(work),
      current_(scenario.coordinator.size, nullptr) {}

void Launcher::StartFaultyJobs() {
  starts_left_ = scenario_.attempts_max * (scenario_.restarts_one ? scenario_.coordinator.size : 1);
  RestartJob();
}

void Launcher::RestartJob() {
  if (starts_left_-- <= 0) return;
  const int operations = static_cast<int>(random_.Between(3, 25));
  StartJob(operations, random_.Between(absl::Seconds(1), absl::Seconds(15)));
}

void Launcher::StartHealthyJob() {
  healthy_ = true;
  StartJob(static_cast<int>(random_.Between(6, 12)), absl::Seconds(60));
}

void Launcher::StartDoomedJob() {
  healthy_ = false;
  starts_left_ = 1;
  RestartJob();
}

void Launcher::StartJob(int operations, absl::Duration timeout) {
  ++job_;
  failing_ = false;
  ended_well_.assign(scenario_.coordinator.size, false);
  std::vector<Operation> program =
      DrawProgram(random_, scenario_.coordinator.size, operations, timeout);
  if (healthy_) {
    // All begin together, since members of a recoverable job come in one by one, and who is alive
    // is asked of those that are in. They end together, since the shutdown barrier is no place to
    // wait for the slow: its time-out may be short.
    Operation together{
        .kind = Operation::Kind::kBarrier, .name = "end", .everybody = true, .duration = timeout};
    for (int32_t i = 0; i < scenario_.coordinator.size; ++i) together.members.emplace_back(i);
    program.push_back(together);
    together.name = "begin";
    program.insert(program.begin(), together);
  }
  program_ = std::make_shared<const std::vector<Operation>>(std::move(program));
  trace_.Note(schedule_.now(), healthy_ ? "a healthy job starts" : "a job starts");
  // The last member joins the first run late: until its process starts it is left out.
  const int32_t size = scenario_.coordinator.size;
  Tell(coord::RunBegan{.size = last_pid_ == 0 ? size - 1 : size});
  for (int32_t i = 0; i < scenario_.coordinator.size; ++i) {
    schedule_.After(random_.Between(absl::ZeroDuration(), absl::Milliseconds(500)),
                    [this, job = job_, i] {
                      if (job == job_) StartProcess(MemberIndex(i));
                    });
  }
}

void Launcher::StartProcess(MemberIndex member) {
  Process::Setup setup{.agent = {.member = member,
                                 .incarnation = Incarnation(random_.Next()),
                                 .init_timeout = scenario_.init_timeout,
                                 .heartbeat_period = scenario_.client_period,
                                 .shutdown_timeout = scenario_.coordinator.shutdown_timeout,
                                 .polls_again = scenario_.polls_again},
                       .program = program_,
                       .goes_on = !healthy_ && random_.Percent(30),
                       .noisy = !healthy_,
                       .pid = ++last_pid_};
  if (healthy_) setup.agent.init_timeout = absl::Seconds(60);
  processes_.push_back(std::make_unique<Process>(
      schedule_, network_, scenario_, random_.Fork(), std::move(setup), work_,
      [this](Process& process, int code, absl::string_view why) { Ended(process, code, why); }));
  Process& process = *processes_.back();
  current_[member.value()] = &process;
  trace_.Note(schedule_.now(),
              absl::StrCat("start task/", member.value(), " as pid ", process.pid()));
  Tell(coord::ProcessStarted{.member = member, .host = "sim", .pid = process.pid()});
  process.Start();
}

void Launcher::Ended(Process& process, int code, absl::string_view why) {
  const int32_t index = process.member().value();
  trace_.Note(schedule_.now(), absl::StrCat("task/", index, " exits with ", code, ": ", why));
  if (code != 0) Tell(coord::ProcessEnding{.member = process.member(), .pid = process.pid()});
  Tell(coord::ProcessEnded{.member = process.member(), .pid = process.pid(), .exit_code = code});
  if (current_[index] != &process) return;
  if (code != 0) {
    if (healthy_ && failure_.empty()) {
      failure_ = absl::StrCat("task/", index, " of a healthy job exited with ", code, ": ", why);
    }
    return AfterFailure(process.member());
  }
  ended_well_[index] = true;
  if (!done() || healthy_) return;
  schedule_.After(random_.Between(absl::ZeroDuration(), absl::Seconds(2)), [this, job = job_] {
    if (job == job_) RestartJob();
  });
}

void Launcher::AfterFailure(MemberIndex member) {
  if (healthy_) return;
  const absl::Duration delay = random_.Between(absl::ZeroDuration(), scenario_.restart_delay_max);
  if (scenario_.restarts_one || scenario_.coordinator.recoverable) {
    if (starts_left_-- <= 0) return;
    schedule_.After(delay, [this, job = job_, member] {
      if (job == job_) StartProcess(member);
    });
    return;
  }
  if (std::exchange(failing_, true)) return;
  schedule_.After(delay, [this, job = job_] {
    if (job != job_) return;
    ++job_;
    for (Process* process : Running()) Kill(*process, false);
    schedule_.After(random_.Between(absl::ZeroDuration(), scenario_.restart_delay_max),
                    [this, next = job_] {
                      if (next == job_) RestartJob();
                    });
  });
}

void Launcher::Kill(Process& process, bool silently) {
  if (!process.alive()) return;
  trace_.Note(schedule_.now(),
              absl::StrCat(silently ? "vanish" : "kill", " task/", process.member().value(),
                           " (pid ", process.pid(), ")"));
  process.Kill(silently);
  if (!silently) {
    Tell(coord::ProcessEnded{.member = process.member(), .pid = process.pid(), .signal = kSigkill});
  }
  if (current_[process.member().value()] == &process) AfterFailure(process.member());
}

void Launcher::EndAll() {
  ++job_;
  starts_left_ = 0;
  failing_ = true;
  for (Process* process : Running()) Kill(*process, false);
}

void Launcher::StopForAWhile(Process& process, absl::Duration pause) {
  if (network_.Stopped(process.peer())) return;
  trace_.Note(schedule_.now(), absl::StrCat("stop task/", process.member().value(), " for ",
                                            absl::FormatDuration(pause)));
  network_.Stop(process.peer());
  Tell(coord::ProcessStopped{.member = process.member(), .pid = process.pid()});
  schedule_.After(pause, [this, &process] {
    if (!process.alive() || !network_.Stopped(process.peer())) return;
    Tell(coord::ProcessContinued{.member = process.member(), .pid = process.pid()});
    network_.Continue(process.peer());
  });
}

void Launcher::ContinueAll() {
  for (Process* process : Running()) {
    if (!network_.Stopped(process->peer())) continue;
    Tell(coord::ProcessContinued{.member = process->member(), .pid = process->pid()});
    network_.Continue(process->peer());
  }
}

bool Launcher::done() const {
  return !ended_well_.empty() &&
         std::all_of(ended_well_.begin(), ended_well_.end(), [](bool well) { return well; });
}

std::vector<Process*> Launcher::Running() const {
  std::vector<Process*> running;
  for (const auto& process : processes_) {
    if (process->alive()) running.push_back(process.get());
  }
  return running;
}

void Launcher::Tell(coord::Event fact) {
  if (!scenario_.launcher_tells) return;
  const absl::Duration delay = scenario_.tells_late && !healthy_ && random_.Percent(30)
                                   ? random_.Between(absl::ZeroDuration(), absl::Seconds(3))
                                   : random_.Between(scenario_.delay_min, scenario_.delay_max);
  last_report_ = std::max(last_report_, schedule_.now() + delay);
  schedule_.At(last_report_, [this, fact = std::move(fact)] { server_.Handle(fact); });
}

}  // namespace lockstep::sim

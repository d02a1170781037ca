#include "lockstep/cli/run_session.h"

#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "asio/posix/stream_descriptor.hpp"
#include "lockstep/agent/torch_agents.h"
#include "lockstep/cli/job_lookup.h"
#include "lockstep/cli/own_programs.h"
#include "lockstep/cli/run_file.h"
#include "lockstep/cli/run_notices.h"
#include "lockstep/cli/run_outcome.h"
#include "lockstep/cli/run_output.h"
#include "lockstep/cli/run_plan.h"
#include "lockstep/cli/run_stacks.h"
#include "lockstep/cli/server_calls.h"
#include "lockstep/cli/task_token.h"
#include "lockstep/launch/exception_pipe.h"
#include "lockstep/launch/exit_code.h"
#include "lockstep/launch/free_ports.h"
#include "lockstep/launch/guardian.h"
#include "lockstep/launch/log_writer.h"
#include "lockstep/launch/node_group_link.h"
#include "lockstep/launch/orphans.h"
#include "lockstep/launch/port_forwarder.h"
#include "lockstep/launch/python_hook.h"
#include "lockstep/launch/result_file.h"
#include "lockstep/launch/run_folder.h"
#include "lockstep/platform/link/reporter.h"
#include "lockstep/platform/link/servers.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::cli {
namespace {

// The last report goes out while we end; a server that does not answer does not hold us up.
constexpr absl::Duration kReportFlushTimeout = absl::Seconds(2);

// From a signal that ends the run until it is passed on, in which `why` is asked.
constexpr absl::Duration kTellWhyTimeout = absl::Milliseconds(500);

// From the word that processes are ended until they are: the server is to know it before them.
constexpr absl::Duration kReportedTimeout = absl::Milliseconds(200);

// From a signal after the verdict until we end, whoever has not read it by then.
constexpr absl::Duration kLastWordsTimeout = absl::Seconds(1);

// Passed on unless the user says which.
constexpr std::array kForwardedSignals = {SIGINT,  SIGTERM, SIGHUP, SIGUSR1,
                                          SIGUSR2, SIGQUIT, SIGXCPU};

void SayNow(const std::string& sentence) {
  std::fprintf(stderr, "lockstep run: %s\n", sentence.c_str());
}

// For a failure before anything was started.
int Fail(int exit_code, const absl::Status& status) {
  SayNow(std::string(status.message()));
  return exit_code;
}

// A run of hundreds of processes needs more descriptors than the usual 1024: each for its pipes and
// files, and as many for connections that it has forwarded.
void RaiseDescriptorLimit(int32_t processes) {
  rlimit limit = {};
  const rlim_t needed = static_cast<rlim_t>(processes) * 12 + 320;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  limit.rlim_cur = std::min(limit.rlim_max, needed);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Blocks the signals that we read from a descriptor instead, for all threads to come. A signal that
// was ignored when we started (nohup, a background job of a script) stays so.
int TakeSignals(const std::vector<int>& wanted, launch::InheritedSignals& inherited) {
  sigset_t taken;
  ::sigemptyset(&taken);
  ::sigaddset(&taken, SIGCHLD);
  struct sigaction action = {};
  std::vector<int> passed_on(kForwardedSignals.begin(), kForwardedSignals.end());
  if (!wanted.empty()) passed_on = wanted;
  for (const int signal : passed_on) {
    ::sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::sigaddset(&taken, signal);
  }
  ::sigprocmask(SIG_BLOCK, &taken, &inherited.mask);
  // Whoever started us may have ignored it, and then the kernel would reap our children unseen.
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, nullptr);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &action);
  inherited.pipe_ignored = action.sa_handler == SIG_IGN;
  return ::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

wire::native::ProcessReport ToWire(const launch::ProcessReport& report, const std::string& job,
                                   const std::string& host) {
  using Kind = launch::ProcessReport::Kind;
  using wire::native::ProcessEvent;
  ProcessEvent event = ProcessEvent::kUnspecified;
  switch (report.kind) {
    case Kind::kStarted:
      event = ProcessEvent::kStarted;
      break;
    case Kind::kEnded:
      event = ProcessEvent::kEnded;
      break;
    case Kind::kStopped:
      event = ProcessEvent::kStopped;
      break;
    case Kind::kContinued:
      event = ProcessEvent::kContinued;
      break;
    case Kind::kEnding:
      event = ProcessEvent::kEnding;
      break;
  }
  return {.job = job,
          .member = report.member.value(),
          .event = event,
          .host = host,
          .pid = report.pid,
          .exit_code = report.ending.exit_code,
          .signal = report.ending.signal,
          .error = report.error};
}

// What stands between torch's clients here and the server; null: nothing, or the other does.
struct TorchWay {
  std::unique_ptr<launch::PortForwarder> forwarder;
  std::unique_ptr<agent::TorchAgents> agents;

  // Where the processes here find the store of that attempt.
  absl::StatusOr<std::string> StoreHere(std::string at_server, int64_t attempt) const {
    if (agents != nullptr) return agents->Serve(attempt);
    if (forwarder == nullptr) return at_server;
    return forwarder->Forward(wire::native::StockService::kTorchStore, attempt);
  }
};

// Owns everything of one run: signals, output, the server, the processes.
//
// It starts the server if there is to be one, then the processes, and when these have ended it
// stops the server, flushes the output and ends. A signal before the processes run ends it; one
// after they ended gives the flush a second, since whoever reads our output may never do so, and
// another one nothing.
//
// Threads: constructed and run on one thread, which is the loop.
class Session : public launch::LaunchHost {
 public:
  // `folder` is this run's own.
  Session(Plan plan, launch::Guardian& guardian, int signal_fd, const std::string& folder);

  int Run();

 private:
  bool WriteOutput(std::string lines) override { return output_.Write(std::move(lines)); }
  bool WriteErrors(std::string lines) override { return output_.WriteErrors(std::move(lines)); }
  void Say(std::string sentence) override { output_.Say(sentence); }
  void Report(const launch::ProcessReport& report) override;
  void WhenReported(std::function<void()> done) override;
  void AskRootCause() override;
  void AskWhatIsSeen();
  void TellWhy(std::function<void()> done) override;
  void EndWithBundle(int exit_code);
  void CheckPreemption() override { notices_->Check(); }
  void NoticeSignal(int signal) override { notices_->TakeSignal(signal); }
  void Restarting(int32_t restarts) override;
  void TellFailure(const launch::FailureTold& failure) override {
    node_group_->TellFailed(failure.text, failure.exit_code, failure.failure);
  }
  void AttemptOver(const launch::AttemptOver& over) override {
    node_group_->TellOver(over.exit_code, over.again, over.text);
  }
  void Finished(int exit_code, const launch::RunResult& result) override;

  void StartProcesses(absl::StatusOr<launch::JobAddress> address);
  // `reached`: as stock clients on this host reach it.
  void Start(absl::StatusOr<launch::JobAddress> reached);
  void StartNotices();
  // With other nodes: joins their group, and begins what that says.
  void JoinNodeGroup();
  void TakeFromNodeGroup(const wire::native::PollNodeGroupReply& told);
  void BeginFromNodeGroup(const wire::native::PollNodeGroupReply& told);
  // What each attempt has for itself, but for its number.
  void RenewPorts(launch::RunEnvironment& environment);
  // Calls `then` when the attempt of that number has a store of its own, if the server has any.
  using Opened = std::function<void(absl::StatusOr<launch::RunEnvironment>)>;
  void OpenStore(int64_t number, launch::RunEnvironment environment, Opened then);
  void Begin(absl::StatusOr<launch::RunEnvironment> environment,
             std::optional<int32_t> failures = std::nullopt);
  void ReapOrphans();
  void WaitForSignal();
  void OnSignal(int signal);
  [[noreturn]] void EndNow();
  void End(int exit_code);
  void FlushOutput();

  Plan plan_;
  launch::Guardian& guardian_;
  runtime::Loop loop_;
  asio::posix::stream_descriptor signals_;
  const std::unique_ptr<RunNotices> notices_;  // posts to the loop
  std::optional<RunFile> run_file_;            // tells others on this host that the run goes on
  RunStacks stacks_;
  launch::ExceptionPipe exceptions_;
  RunOutput output_;
  std::unique_ptr<link::Reporter> reporter_;
  OwnPrograms programs_;
  std::unique_ptr<launch::Launcher> launcher_;
  std::unique_ptr<launch::NodeGroupLink> node_group_;  // null: there are no other nodes
  // Of the node group's attempts, the last ones.
  struct {
    int64_t begun = 0;       // here
    int64_t called_off = 0;  // by anyone
    bool noticing = false;   // notices have been started
    bool left = false;       // the group
  } group_;
  TorchWay torch_;
  std::optional<int> exit_code_;
  bool seen_failure_ = false;  // of this attempt
  Time attempt_began_;
  runtime::Timer why_timer_{loop_};  // until the signal is passed on in any case
  std::function<void()> passing_on_;
  bool hurries_ = false;  // a signal came after the verdict
  runtime::Timer hurry_timer_{loop_};
  ServerCalls calls_{loop_};  // last: they use the others
};

Session::Session(Plan plan, launch::Guardian& guardian, int signal_fd, const std::string& folder)
    : plan_(std::move(plan)),
      guardian_(guardian),
      signals_(loop_.io(), signal_fd),
      notices_(std::move(plan_.notices)),
      stacks_({.folder = folder, .host = plan_.host, .role = plan_.launcher.environment.role}),
      exceptions_(loop_, folder,
                  [this](const launch::RaisedException& raised) {
                    if (launcher_ != nullptr && !exit_code_) launcher_->OnException(raised);
                  }),
      output_(
          loop_,
          [this] {
            if (launcher_ != nullptr) launcher_->ResumeOutput();
          },
          [this] {
            if (launcher_ != nullptr) launcher_->ResumeErrors();
          }),
      programs_(loop_, guardian_,
                {.ended =
                     [this](const launch::ServerEnded& ended, const std::string& last_words) {
                       if (exit_code_) return;
                       launcher_->Handle(ended);
                       Say(absl::StrCat(ended.what, " ended", last_words));
                     },
                 .log =
                     [this](const std::string& line) {
                       output_.WriteErrors(absl::StrCat(line, "\n"));
                     }}) {}

int Session::Run() {
  WaitForSignal();
  // From the loop, so that all that follows happens in it.
  loop_.Post([this] {
    if (!plan_.server) return StartProcesses(plan_.launcher.environment.address);
    programs_.StartServer(*plan_.server, [this](absl::StatusOr<launch::JobAddress> address) {
      if (!exit_code_) StartProcesses(std::move(address));
    });
  });
  loop_.Run();
  calls_.Stop();
  // A server of our own has been stopped by now and wants no reports.
  if (reporter_ != nullptr && !programs_.has_server()) reporter_->Flush(kReportFlushTimeout);
  return *exit_code_;
}

void Session::StartProcesses(absl::StatusOr<launch::JobAddress> address) {
  if (!address.ok()) {
    Say(std::string(address.status().message()));
    return End(launch::kExitLockstepFailed);
  }
  launch::JobAddress& known = plan_.launcher.environment.address;
  known = *std::move(address);
  if (!plan_.agent) {
    auto forwarder = launch::PortForwarder::WhereNeeded(
        loop_, known, [this](const std::string& sentence) { Say(sentence); });
    if (!forwarder.ok()) return Start(forwarder.status());
    torch_.forwarder = *std::move(forwarder);
    return Start(known);
  }
  const auto coordinator = link::Servers::Read(known.link);
  if (!coordinator.ok()) return Start(coordinator.status());
  torch_.agents = std::make_unique<agent::TorchAgents>(
      loop_,
      agent::TorchAgents::Options{
          .coordinator = *coordinator, .job = known.job, .patience = plan_.agent_patience},
      [this](const std::string& sentence) { Say(sentence); });
  programs_.StartAgent(*plan_.agent, known, /*fences=*/!plan_.nodes.alone() && plan_.agent_fences,
                       [this](absl::StatusOr<launch::JobAddress> by_agent) {
                         if (!exit_code_) Start(std::move(by_agent));
                       });
}

void Session::Start(absl::StatusOr<launch::JobAddress> reached) {
  if (!reached.ok()) {
    Say(std::string(reached.status().message()));
    return End(launch::kExitLockstepFailed);
  }
  launch::JobAddress& address = plan_.launcher.environment.address;
  address = *std::move(reached);
  if (plan_.agent) Say(absl::StrCat("agent of this host: pid ", programs_.pid()));
  // Without it only `lockstep why` has to be told more.
  if (auto file = RunFile::Write(address.job, address.link); file.ok()) {
    run_file_.emplace(*std::move(file));
  }
  if (plan_.nodes.alone()) RenewPorts(plan_.launcher.environment);
  Say(absl::StrFormat("job \"%s\": %d process%s%s, coordinator %s%s, stock clients at %s",
                      address.job, plan_.launcher.supervisor.size,
                      plan_.launcher.supervisor.size == 1 ? "" : "es",
                      plan_.nodes.alone() ? "" : " on this node", address.link,
                      programs_.has_server() ? " (started for this run)" : "", address.grpc));
  if (LimitsThreads(plan_.launcher.environment)) {
    Say("OMP_NUM_THREADS is not set: each process gets 1, so that they do not compete for cores; "
        "set it to suit the program");
  }
  link::Reporter::Options options;
  options.who = "lockstep run";
  options.log = [this](std::string text) {
    loop_.Post([this, text = std::move(text)] {
      if (!exit_code_) Say(text);
    });
  };
  if (!programs_.has_server()) {
    options.lost = [this](std::string why) {
      loop_.Post([this, why = std::move(why)] {
        if (!exit_code_) launcher_->Handle(launch::ServerLost{why});
      });
    };
    options.found = [this] {
      loop_.Post([this] {
        if (!exit_code_) launcher_->Handle(launch::ServerFound{});
      });
    };
  }
  reporter_ = std::make_unique<link::Reporter>(address.link, std::move(options));
  launcher_ = std::make_unique<launch::Launcher>(loop_, guardian_, *this, plan_.launcher);
  stacks_.Start(
      address,
      [this](std::function<void(RunStacks::LastLines)> told) {
        loop_.Post([this, told = std::move(told)] {
          told(launcher_ != nullptr ? launcher_->LastLinesOfAll() : RunStacks::LastLines());
        });
      },
      [this](std::string sentence) {
        loop_.Post([this, sentence = std::move(sentence)] {
          if (!exit_code_) Say(sentence);
        });
      });
  if (!plan_.nodes.alone()) return JoinNodeGroup();
  if (programs_.has_server()) {
    attempt_began_ = runtime::MonotonicNow();
    launcher_->Start();
    return StartNotices();
  }
  // One that runs already may have had attempts of the job before.
  OpenStore(NumberOf(plan_, 0), plan_.launcher.environment,
            [this](absl::StatusOr<launch::RunEnvironment> ready) {
              Begin(std::move(ready));
              if (!exit_code_) StartNotices();
            });
}

void Session::JoinNodeGroup() {
  const launch::LauncherOptions& launcher = plan_.launcher;
  wire::native::PollNodeGroup self = {
      .job = launcher.environment.address.job,
      .node = plan_.node_id,
      .host = plan_.host,
      .pid = ::getpid(),
      .processes = plan_.nodes.processes,
      .node_rank = plan_.nodes.node,
      .run = launcher.environment.run_name,
      .nodes_least = plan_.nodes.least,
      .nodes_most = plan_.nodes.most,
      .max_restarts = launcher.supervisor.max_restarts,
      .join_timeout_us = absl::ToInt64Microseconds(plan_.join_timeout),
      .last_call_us = absl::ToInt64Microseconds(plan_.last_call),
      .restart_backoff_us = absl::ToInt64Microseconds(launcher.supervisor.restart_backoff),
      .restart_backoff_max_us = absl::ToInt64Microseconds(launcher.supervisor.restart_backoff_max)};
  node_group_ = std::make_unique<launch::NodeGroupLink>(
      loop_, launcher.environment.address.link, std::move(self),
      launch::NodeGroupLink::Callbacks{.told =
                                           [this](const wire::native::PollNodeGroupReply& told) {
                                             if (!exit_code_) TakeFromNodeGroup(told);
                                           },
                                       .refused =
                                           [this](const absl::Status& why) {
                                             if (exit_code_) return;
                                             Say(absl::StrCat("this node cannot join: ",
                                                              std::string(why.message())));
                                             End(launch::kExitLockstepFailed);
                                           },
                                       .lost =
                                           [this](const std::string& why) {
                                             if (exit_code_) return;
                                             if (why.empty()) {
                                               launcher_->Handle(launch::NodeServerFound{});
                                             } else {
                                               launcher_->Handle(launch::NodeServerLost{why});
                                             }
                                           },
                                       .say =
                                           [this](std::string sentence) {
                                             if (!exit_code_) Say(std::move(sentence));
                                           }});
  auto ports = launch::FreePorts(plan_.nodes.processes, /*loopback=*/false);
  if (ports.ok()) node_group_->OfferPorts(*std::move(ports));
  node_group_->Start();
}

void Session::TakeFromNodeGroup(const wire::native::PollNodeGroupReply& told) {
  using wire::native::NodeGroupStep;
  if (told.step == NodeGroupStep::kBegin) {
    BeginFromNodeGroup(told);
  } else if (told.step == NodeGroupStep::kCalledOff) {
    group_.called_off = told.attempt;
    if (group_.begun == told.attempt)
      launcher_->Handle(launch::AttemptCalledOff{told.why, told.another});
  } else if (told.step == NodeGroupStep::kEnded) {
    launcher_->Handle(launch::RunEnded{told.exit_code, told.why});
  }
}

void Session::BeginFromNodeGroup(const wire::native::PollNodeGroupReply& told) {
  const bool again = told.attempt > 1;
  launch::RunEnvironment environment = plan_.launcher.environment;
  environment.placement = {.size = told.size,
                           .first = told.first_member,
                           .local_size = plan_.nodes.processes,
                           .node = told.node_rank,
                           .nodes = told.nodes};
  environment.attempt = {.restarts = static_cast<int32_t>(told.attempt - 1),
                         .max_restarts = plan_.launcher.supervisor.max_restarts,
                         .number = told.job_attempt};
  environment.tensorflow = told.addresses;
  const int32_t last = told.first_member + plan_.nodes.processes - 1;
  const int64_t number = told.job_attempt > 0 ? told.job_attempt : told.attempt;
  Say(absl::StrFormat("attempt %d: node %d of %d, members %d to %d of %d%s", number, told.node_rank,
                      told.nodes, told.first_member, last, told.size,
                      told.failures > 0 ? absl::StrFormat(" (restart %d of %d)", told.failures,
                                                          environment.attempt.max_restarts)
                                        : std::string()));
  plan_.launcher.environment.placement = environment.placement;
  if (again && group_.noticing) notices_->Restarted({told.first_member, plan_.nodes.processes});
  OpenStore(told.job_attempt, std::move(environment),
            [this, attempt = told.attempt,
             failures = told.failures](absl::StatusOr<launch::RunEnvironment> ready) {
              // It was called off before it began; others may have begun the next one by now.
              const bool over =
                  group_.called_off >= attempt || absl::IsFailedPrecondition(ready.status());
              if (over) return node_group_->TellOver(0, /*again=*/false);
              group_.begun = attempt;
              Begin(std::move(ready), failures);
              if (!exit_code_ && !std::exchange(group_.noticing, true)) StartNotices();
            });
}

void Session::StartNotices() {
  notices_->Start(loop_, plan_.launcher.environment.address,
                  {plan_.launcher.environment.placement.first, plan_.launcher.supervisor.size},
                  {.say =
                       [this](const std::string& sentence) {
                         if (!exit_code_) Say(sentence);
                       },
                   .told =
                       [this](const launch::PreemptionTold& told) {
                         if (!exit_code_) launcher_->Handle(told);
                       },
                   .checked =
                       [this](const std::optional<launch::PreemptionTold>& told) {
                         if (!exit_code_) launcher_->Handle(launch::PreemptionChecked{told});
                       },
                   .host =
                       [this](const launch::HostTold& told) {
                         if (!exit_code_) launcher_->Handle(told);
                       }});
}

void Session::RenewPorts(launch::RunEnvironment& environment) {
  environment.tensorflow.clear();
  const auto ports = launch::FreePorts(environment.placement.local_size, /*loopback=*/true);
  if (!ports.ok()) {
    return Say(absl::StrCat("TF_CONFIG is not set: ", std::string(ports.status().message())));
  }
  for (const uint16_t port : *ports) {
    environment.tensorflow.push_back(absl::StrCat("127.0.0.1:", port));
  }
}

void Session::Restarting(int32_t restarts) {
  const launch::Placement& place = plan_.launcher.environment.placement;
  notices_->Restarted({place.first, place.local_size});
  launch::RunEnvironment environment = plan_.launcher.environment;
  SetAttempt(plan_, restarts, environment);
  RenewPorts(environment);
  OpenStore(NumberOf(plan_, restarts), std::move(environment),
            [this](absl::StatusOr<launch::RunEnvironment> ready) { Begin(std::move(ready)); });
}

void Session::Begin(absl::StatusOr<launch::RunEnvironment> environment,
                    std::optional<int32_t> failures) {
  seen_failure_ = false;
  attempt_began_ = runtime::MonotonicNow();
  if (environment.ok()) return launcher_->Begin(*std::move(environment), failures);
  Say(absl::StrCat("the attempt has no torch store: ",
                   std::string(environment.status().message())));
  End(launch::kExitLockstepFailed);
}

void Session::OpenStore(int64_t number, launch::RunEnvironment environment, Opened then) {
  if (environment.address.store.empty()) return then(std::move(environment));
  calls_.Start(ServerCalls::Kind::kOpenStore, [this, number, environment = std::move(environment),
                                               then = std::move(then)]() {
    auto store = OpenStoreOf(environment.address, number, [this] { return calls_.stopping(); });
    if (calls_.stopping()) return ServerCalls::Then();
    return ServerCalls::Then([this, number, store = std::move(store), environment, then]() mutable {
      if (exit_code_) return;
      if (store.ok()) store = torch_.StoreHere(*std::move(store), number);
      if (!store.ok()) return then(store.status());
      environment.address.store = *store;
      then(std::move(environment));
    });
  });
}

// What the others waited for tells more than how they ended.
void Session::AskWhatIsSeen() {
  calls_.Start(ServerCalls::Kind::kSeen, [this, address = plan_.launcher.environment.address] {
    std::vector<std::string> seen = WhatIsSeenOf(address);
    if (seen.empty()) return ServerCalls::Then();
    return ServerCalls::Then([this, seen = std::move(seen)] {
      if (exit_code_) return;
      Say(absl::StrCat("at that time, the others were waiting:\n  | ",
                       absl::StrJoin(seen, "\n  | ")));
    });
  });
}

// Somebody ends a run that may hang; once.
void Session::TellWhy(std::function<void()> done) {
  passing_on_ = std::move(done);
  calls_.Start(ServerCalls::Kind::kWhy, [this, address = plan_.launcher.environment.address] {
    return [this, why = WhyItWaits(address)] {
      if (!passing_on_ || exit_code_) return;  // what is seen now, the signal has caused
      if (!why.empty()) Say(absl::StrJoin(why, "\n  | "));
      std::exchange(passing_on_, nullptr)();
    };
  });
  why_timer_.Arm(runtime::MonotonicNow() + kTellWhyTimeout, [this] {
    if (passing_on_) std::exchange(passing_on_, nullptr)();
  });
}

void Session::Finished(int exit_code, const launch::RunResult& result) {
  for (const std::string& path : plan_.result_files) {
    const absl::Status written = launch::WriteResult(path, result,
                                                     {.job = plan_.launcher.environment.address.job,
                                                      .host = plan_.host,
                                                      .role = plan_.launcher.environment.role});
    if (!written.ok()) Say(std::string(written.message()));
  }
  const bool failed = result.outcome == "failed" || result.outcome == "signalled";
  const bool bundles = failed && !plan_.bundle_folder.empty();
  bundles ? EndWithBundle(exit_code) : End(exit_code);
}

// While the server lives, if it is ours.
void Session::EndWithBundle(int exit_code) {
  calls_.Start(ServerCalls::Kind::kBundle, [this, exit_code] {
    const std::string said = WriteBundle(plan_.launcher.environment.address, plan_.bundle_folder);
    return [this, said, exit_code] {
      Say(said);
      End(exit_code);
    };
  });
}

void Session::Report(const launch::ProcessReport& report) {
  stacks_.Take(report);
  const bool failed =
      report.kind == launch::ProcessReport::Kind::kEnded && !report.ending.succeeded();
  if (failed && !std::exchange(seen_failure_, true)) AskWhatIsSeen();
  reporter_->Report(ToWire(report, plan_.launcher.environment.address.job, plan_.host));
}

void Session::WhenReported(std::function<void()> done) {
  calls_.Start(ServerCalls::Kind::kReported, [this, done = std::move(done)] {
    reporter_->Flush(kReportedTimeout);
    return [this, done] {
      if (!exit_code_) done();
    };
  });
}

void Session::AskRootCause() {
  calls_.Start(ServerCalls::Kind::kRootCause,
               [this, address = plan_.launcher.environment.address, began = attempt_began_] {
                 return [this, told = RootCauseOf(address, runtime::MonotonicNow() - began)] {
                   if (!exit_code_) launcher_->Handle(told);
                 };
               });
}

void Session::WaitForSignal() {
  signals_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [this](const asio::error_code& error) {
                        if (error) return;
                        signalfd_siginfo info;
                        while (::read(signals_.native_handle(), &info, sizeof info) ==
                               static_cast<ssize_t>(sizeof info)) {
                          OnSignal(static_cast<int>(info.ssi_signo));
                        }
                        WaitForSignal();
                      });
}

// In a container we may be the process that all orphans are given to.
void Session::ReapOrphans() {
  if (::getpid() != 1) return;
  launch::ReapOrphans([this](pid_t pid) {
    return pid == guardian_.pid() || pid == programs_.pid() ||
           (launcher_ != nullptr && launcher_->Holds(pid));
  });
}

void Session::OnSignal(int signal) {
  if (signal == SIGCHLD) {
    if (launcher_ != nullptr) launcher_->OnChildSignal();
    ReapOrphans();
  } else if (exit_code_) {
    // The last words go out in any case where somebody reads them.
    if (std::exchange(hurries_, true)) EndNow();
    hurry_timer_.Arm(runtime::MonotonicNow() + kLastWordsTimeout, [this] { EndNow(); });
  } else if (launcher_ != nullptr) {
    launcher_->Handle(launch::SignalReceived{signal});
  } else {
    Say(absl::StrCat(launch::SignalName(signal), " before the processes were started"));
    End(launch::kExitSignalBase + signal);
  }
}

void Session::EndNow() {
  guardian_.Finish();
  ::_exit(*exit_code_);
}

void Session::End(int exit_code) {
  exit_code_ = exit_code;
  programs_.Stop([this] { FlushOutput(); });
}

void Session::FlushOutput() {
  if (node_group_ != nullptr && !group_.left) {
    group_.left = true;
    return node_group_->Leave([this] { FlushOutput(); });
  }
  const auto flush = [this] { output_.Flush([this] { loop_.Stop(); }); };
  if (launcher_ != nullptr) {
    launcher_->FlushLogs(flush);
  } else {
    flush();
  }
}

// Has the run's files written below `folder`; a run on one node gets a folder without another's.
absl::Status UseLogFolder(const std::string& folder, Plan& plan) {
  if (absl::Status prepared = launch::LogWriter::Prepare(folder); !prepared.ok()) return prepared;
  std::string name = launch::kResultFile;
  plan.launcher.log_folder = folder;
  if (plan.nodes.alone()) {
    absl::StatusOr<std::string> own = launch::LogWriter::FolderOfRun(folder);
    if (!own.ok()) return own.status();
    if (*own != folder) {
      SayNow(absl::StrCat("--log-dir ", folder, " has files of an earlier run; this run writes to ",
                          *own));
    }
    plan.launcher.log_folder = *std::move(own);
  } else {
    name = absl::StrCat("result.", plan.host, ".", ::getpid(), ".json");  // nodes may share it
  }
  plan.result_files.push_back(absl::StrCat(plan.launcher.log_folder, "/", name));
  return absl::OkStatus();
}

}  // namespace

int RunJob(const RunOptions& options) {
  int failure = launch::kExitLockstepFailed;
  for (const std::string& sentence : options.without_effect) SayNow(sentence);
  absl::StatusOr<Plan> plan = MakePlan(options, failure);
  if (!plan.ok()) return Fail(failure, plan.status());
  if (options.only_shows()) {
    if (options.dry_run) PrintPlan(options, *plan);
    if (options.print_environment) PrintEnvironment(options, *plan);
    return 0;
  }
  if (!plan->runs_already.empty()) SayNow(plan->runs_already);
  if (!plan->differs.empty()) SayNow(plan->differs);
  // What goes to files only would be lost.
  if (!options.log_folder.empty()) {
    const absl::Status prepared = UseLogFolder(options.log_folder, *plan);
    if (!prepared.ok()) {
      SayNow(absl::StrCat("--log-dir: ", std::string(prepared.message()),
                          "; nothing was started; use another directory"));
      return launch::kExitUsage;
    }
  }
  // Only a server or agent of our own cannot do without it.
  absl::StatusOr<std::string> made = launch::MakeRunFolder();
  if ((plan->server || plan->agent) && !made.ok())
    return Fail(launch::kExitLockstepFailed, made.status());
  const std::string folder = made.ok() ? *made : "";
  if (plan->server) plan->server->folder = folder;
  if (plan->agent) plan->agent->folder = folder;
  if (!options.no_stacks && !folder.empty() && launch::WritePythonHook(folder, ::getpid()).ok()) {
    launch::AddPythonHook(folder, plan->launcher.environment);
  }
  plan->launcher.environment.error_folder = folder;
  absl::StatusOr<std::unique_ptr<TaskToken>> task_token = nullptr;
  if (!plan->server) {
    const launch::JobAddress& at = plan->launcher.environment.address;
    task_token = TaskToken::Obtain(at.link, at.job, folder);
    if (!task_token.ok()) return Fail(launch::kExitLockstepFailed, task_token.status());
  }
  if (*task_token != nullptr) {
    plan->launcher.environment.inherited["LOCKSTEP_TOKEN_FILE"] = (*task_token)->path();
  }
  RaiseDescriptorLimit(plan->launcher.supervisor.size);

  launch::InheritedSignals signals;
  const int signal_fd = TakeSignals(plan->signals, signals);
  if (signal_fd < 0) {
    return Fail(launch::kExitLockstepFailed, absl::UnavailableError("cannot make a signalfd"));
  }
  plan->launcher.signals = signals;
  if (plan->server) plan->server->signals = signals;
  if (plan->agent) plan->agent->signals = signals;

  // A server of our own ends with us, so that nobody is to be told.
  const launch::JobAddress& address = plan->launcher.environment.address;
  launch::WhoIsTold told;
  if (!plan->server) told = {.job = address.job, .address = address.link};
  absl::StatusOr<launch::Guardian> guardian =
      launch::Guardian::Start(plan->launcher.environment.run_id, folder, told);
  if (!guardian.ok()) return Fail(launch::kExitLockstepFailed, guardian.status());
  Session session(*std::move(plan), *guardian, signal_fd, folder);
  return session.Run();
}

}  // namespace lockstep::cli

#include "lockstep/cli/run_plan.h"

#include <dirent.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lockstep/cli/job_lookup.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/launch/exit_code.h"
#include "lockstep/launch/find_program.h"
#include "lockstep/launch/jax_environment.h"
#include "lockstep/platform/runtime/host.h"

namespace lockstep::cli {
namespace {

constexpr char kDefaultPath[] = "/usr/bin:/bin";
// Of a hosts file: `hosts_file_bytes_max`.
constexpr size_t kHostsFileBytesMax = 16 << 20;

bool UsesColor(int fd) {
  const char* const terminal = std::getenv("TERM");
  return ::isatty(fd) != 0 && std::getenv("NO_COLOR") == nullptr && terminal != nullptr &&
         std::strcmp(terminal, "dumb") != 0;
}

std::string ValueOf(const launch::Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found != environment.end() ? found->second : "";
}

// Those that this process may use.
int32_t CountCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

int32_t CountGpus(const launch::Environment& environment) {
  const auto visible = environment.find("CUDA_VISIBLE_DEVICES");
  if (visible != environment.end()) {
    const std::vector<std::string> devices =
        absl::StrSplit(visible->second, ',', absl::SkipWhitespace());
    const bool none = devices.size() == 1 && devices[0] == "-1";
    return none ? 0 : static_cast<int32_t>(devices.size());
  }
  int32_t count = 0;
  DIR* const folder = ::opendir("/dev");
  if (folder == nullptr) return 0;
  while (const dirent* entry = ::readdir(folder)) {
    absl::string_view number = entry->d_name;
    if (absl::ConsumePrefix(&number, "nvidia") && !number.empty() &&
        number.find_first_not_of("0123456789") == absl::string_view::npos) {
      ++count;
    }
  }
  ::closedir(folder);
  return count;
}

absl::StatusOr<std::vector<launch::HostLine>> ReadHostsFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat("--hosts-file ", path, ": cannot be read: ", std::strerror(errno)));
  }
  std::string text(kHostsFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kHostsFileBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("--hosts-file ", path, ": is larger than ",
                                                   kHostsFileBytesMax,
                                                   " bytes (hosts_file_bytes_max)"));
  }
  auto hosts = launch::ParseHostsFile(text);
  if (hosts.ok()) return hosts;
  return absl::InvalidArgumentError(
      absl::StrCat("--hosts-file ", path, ": ", std::string(hosts.status().message())));
}

absl::StatusOr<launch::Detected> Detect(const RunOptions& options,
                                        const launch::Environment& environment,
                                        const std::string& host) {
  launch::DetectInput input = {.environment = &environment, .hosts = nullptr, .host_name = host};
  if (options.hosts_file.empty()) return launch::DetectCluster(input);
  const auto hosts = ReadHostsFile(options.hosts_file);
  if (!hosts.ok()) return hosts.status();
  input.hosts = &*hosts;
  return launch::DetectCluster(input);
}

// As torchrun: a module, or a script, is given to Python.
std::vector<std::string> WithPython(const RunOptions& options,
                                    const launch::Environment& environment) {
  const bool script = !options.is_program && absl::EndsWith(options.command.front(), ".py");
  if (!options.is_module && !script) return options.command;
  std::string python = ValueOf(environment, "PYTHON_EXEC");
  if (python.empty()) python = "python3";
  std::vector<std::string> command = {python, "-u"};
  if (options.is_module) command.push_back("-m");
  command.insert(command.end(), options.command.begin(), options.command.end());
  return command;
}

absl::Status CheckOptions(const RunOptions& options, const launch::Nodes& nodes,
                          const launch::Detected& detected) {
  if (options.coordinator.empty() && nodes.processes == 0) {
    return absl::InvalidArgumentError(
        "-n is required: the number of processes (with --coordinator it defaults to the size of "
        "the "
        "job)");
  }
  if (!nodes.alone() && options.coordinator.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "several nodes need a server that all of them can reach: start one with `lockstep serve` "
        "and give all nodes the same --coordinator HOST:PORT",
        detected.coordinator_host.empty()
            ? ""
            : absl::StrCat(", for example on ", detected.coordinator_host)));
  }
  if (options.agent && options.coordinator.empty()) {
    return absl::InvalidArgumentError(
        "--agent needs --coordinator: a server that is started for the run ends with it, and has "
        "no restart to survive");
  }
  if (options.agent && options.print_environment) {
    return absl::InvalidArgumentError(
        "--print-env cannot show the address of an agent that does not run: start `lockstep agent` "
        "and use the address that it prints (docs/agents.md)");
  }
  const auto& redirects = options.routing.redirects;
  if (redirects && !redirects->none() && !options.routing.files) {
    return absl::InvalidArgumentError("--redirects needs --log-dir, the directory for the files");
  }
  if (nodes.processes > launch::kRunProcessesMax) {
    return absl::InvalidArgumentError(absl::StrCat(nodes.processes,
                                                   " processes on one node; at "
                                                   "most ",
                                                   launch::kRunProcessesMax,
                                                   " (run_processes_max)"));
  }
  return absl::OkStatus();
}

launch::SupervisorOptions SupervisorOf(const RunOptions& options, const Plan& plan) {
  launch::SupervisorOptions supervisor;
  supervisor.on_preempt = options.on_preempt;
  supervisor.notice_signals = plan.notices->signals();
  supervisor.term_grace = options.term_grace;
  supervisor.size = plan.nodes.processes;
  supervisor.role = options.role;
  supervisor.grace = options.grace;
  supervisor.stop_grace = options.stop_grace;
  supervisor.max_restarts = options.max_restarts;
  supervisor.scope = options.scope;
  supervisor.alone = plan.nodes.alone();
  supervisor.asks_root_cause = true;
  supervisor.preempt_exit_code = options.preempt_exit_code;
  supervisor.restart_backoff = options.restart_backoff;
  supervisor.restart_backoff_max = options.restart_backoff_max;
  return supervisor;
}

// Of the processes that are about to be started: their coordinator would be told by its process 0.
std::optional<bool> WantsRecoverable(const Plan& plan) {
  const launch::RunEnvironment& environment = plan.launcher.environment;
  return launch::JaxRecoverability(environment.inherited, environment.extra);
}

absl::Status CheckRecoverability(const FoundJob& job, Plan& plan, int& failure) {
  const std::optional<bool> wanted = WantsRecoverable(plan);
  if (!wanted || job.missing) return absl::OkStatus();
  const absl::StatusOr<std::optional<bool>> is = IsRecoverable(job.address, job.size);
  if (!is.ok()) return is.status();
  std::string text = *is ? RecoverabilityText(job.address.job, **is, *wanted) : "";
  if (text.empty() || !*wanted) {
    plan.differs = std::move(text);
    return absl::OkStatus();
  }
  failure = launch::kExitUsage;
  return absl::FailedPreconditionError(text);
}

absl::Status PlanForServer(const RunOptions& options, Plan& plan, int& failure) {
  launch::LauncherOptions& launcher = plan.launcher;
  const bool alone = plan.nodes.alone();
  const IfMissing if_missing = options.only_shows() ? IfMissing::kSuppose : IfMissing::kMake;
  const absl::StatusOr<FoundJob> job =
      alone ? LookUpJob(options.coordinator, options.job, plan.nodes.processes)
            : LookUpJobOfNodes(options.coordinator, options.job,
                               plan.nodes.most * plan.nodes.processes,
                               WantsRecoverable(plan).value_or(false), if_missing);
  if (!job.ok()) {
    if (absl::IsInvalidArgument(job.status())) failure = launch::kExitUsage;
    return absl::Status(job.status().code(), TextOfServerError(job.status()));
  }
  if (absl::Status status = CheckRecoverability(*job, plan, failure); !status.ok()) return status;
  launcher.environment.address = job->address;
  if (alone) launcher.supervisor.size = job->size;
  plan.attempt_before = job->attempt_before;
  plan.job_missing = job->missing;
  // Of several nodes the others may have begun.
  if (alone) plan.runs_already = RunsAlreadyText(*job);
  // Whoever started us may count attempts as well: ours go on from theirs.
  int64_t outer = 0;
  if (absl::SimpleAtoi(ValueOf(launcher.environment.inherited, "LOCKSTEP_ATTEMPT"), &outer)) {
    plan.attempt_before = std::max(plan.attempt_before, outer - 1);
  }
  return absl::OkStatus();
}

absl::Status PlanOwnServer(const RunOptions& options, const launch::Environment& environment,
                           Plan& plan) {
  const absl::StatusOr<std::string> server = launch::FindServer();
  if (!server.ok()) return server.status();
  launch::PrivateServerOptions own;
  own.job = options.job.empty() ? "job" : options.job;
  own.command = {.path = *server,
                 .arguments = {*server, "--listen", "127.0.0.1:0", "--job",
                               absl::StrCat(own.job, "=", plan.nodes.processes), "--ephemeral"}};
  // Who comes back alone must not fail the job.
  const bool one_by_one = options.scope == launch::RestartScope::kRank && options.max_restarts > 0;
  if (one_by_one || WantsRecoverable(plan).value_or(false)) {
    own.command.arguments.insert(own.command.arguments.end(), {"--recoverable", own.job});
  }
  own.command.arguments.insert(own.command.arguments.end(), options.server_arguments.begin(),
                               options.server_arguments.end());
  own.environment = launch::WithoutOtherServers(environment);
  // The processes may start servers of their own, but they are of this job.
  plan.launcher.environment.inherited.erase("LOCKSTEP_ATTEMPT");
  own.run_id = plan.launcher.environment.run_id;
  own.show_log = options.show_server_log;
  plan.launcher.environment.address.job = own.job;
  plan.server = std::move(own);
  return absl::OkStatus();
}

absl::Status PlanAgent(const RunOptions& options, const launch::Environment& environment,
                       Plan& plan) {
  const absl::StatusOr<std::string> program = launch::FindAgent();
  if (!program.ok()) return program.status();
  plan.agent = {.name = "lockstep-agent",
                .label = "agent",
                .command = {.path = *program,
                            .arguments = {*program, "--on-partition", options.on_partition,
                                          "--node", absl::StrCat(plan.node_id)}},
                .environment = environment,
                .run_id = plan.launcher.environment.run_id,
                .show_log = true};
  plan.agent_fences = options.on_partition == "stop";
  // As the agent itself reads it.
  const std::string patience = ValueOf(environment, "LOCKSTEP_AGENT_PATIENCE");
  if (patience.empty()) return absl::OkStatus();
  const absl::StatusOr<absl::Duration> parsed = config::ParseDuration(patience);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("LOCKSTEP_AGENT_PATIENCE: ", std::string(parsed.status().message())));
  }
  plan.agent_patience = *parsed;
  return absl::OkStatus();
}

// The variables of a process that depend on which of these places it gets.
std::vector<std::string> NotSettled(launch::RunEnvironment run,
                                    const std::vector<launch::Placement>& places) {
  run.placement = places.front();
  const launch::Environment first = MemberEnvironment(run, 0);
  std::vector<std::string> names;
  run.placement = places.back();
  for (const auto& [name, value] : MemberEnvironment(run, 0)) {
    if (ValueOf(first, name.c_str()) != value) names.push_back(name);
  }
  return names;
}

// What it gets besides what is inherited, but for what is not settled.
void PrintProcess(const launch::RunEnvironment& run, const std::vector<std::string>& not_settled,
                  int32_t local) {
  if (not_settled.empty()) {
    std::printf("# %s/%d\n", run.role.c_str(), run.placement.first + local);
  } else {
    std::printf("# %s of local rank %d\n", run.role.c_str(), local);
  }
  for (const auto& [name, value] : MemberEnvironment(run, local)) {
    const auto before = run.inherited.find(name);
    if (before != run.inherited.end() && before->second == value) continue;
    if (std::find(not_settled.begin(), not_settled.end(), name) != not_settled.end()) continue;
    std::printf("%s=%s\n", name.c_str(), value.c_str());
  }
}

}  // namespace

absl::StatusOr<Plan> MakePlan(const RunOptions& options, int& failure) {
  Plan plan;
  failure = launch::kExitUsage;
  plan.host = runtime::HostName();
  plan.node_id = runtime::RandomNumber();
  const launch::Environment environment = launch::ParseEnvironment(environ);
  auto detected = Detect(options, environment, plan.host);
  if (!detected.ok()) return detected.status();
  plan.detected = *std::move(detected);
  auto nodes = launch::SettleNodes(options.nodes, plan.detected,
                                   {.cpus = CountCpus(), .gpus = CountGpus(environment)});
  if (!nodes.ok()) return nodes.status();
  plan.nodes = *nodes;
  if (absl::Status status = CheckOptions(options, *nodes, plan.detected); !status.ok()) {
    return status;
  }
  const std::vector<std::string> arguments = WithPython(options, environment);
  const std::string path = ValueOf(environment, "PATH");
  const absl::StatusOr<std::string> program =
      launch::FindProgram(arguments.front(), path.empty() ? kDefaultPath : path);
  if (!program.ok()) {
    failure =
        absl::IsNotFound(program.status()) ? launch::kExitNotFound : launch::kExitCannotExecute;
    return program.status();
  }
  std::vector<std::string> sources = options.notices;
  std::erase(sources, "none");
  auto notices = RunNotices::Make(sources);
  if (!notices.ok()) return notices.status();
  plan.notices = *std::move(notices);
  plan.signals = options.signals;
  plan.bundle_folder = options.bundle_folder;
  if (!options.result_file.empty()) plan.result_files.push_back(options.result_file);

  launch::LauncherOptions& launcher = plan.launcher;
  launcher.supervisor = SupervisorOf(options, plan);
  launcher.command = {.path = *program, .arguments = arguments};
  launcher.environment.inherited = environment;
  launcher.environment.extra = options.extra;
  launcher.environment.role = options.role;
  launcher.environment.run_id = absl::StrFormat("%016x", runtime::RandomNumber());
  launcher.environment.run_name =
      options.run_name.empty() ? plan.detected.run_name : options.run_name;
  launcher.color_output = UsesColor(STDOUT_FILENO);
  launcher.color_errors = UsesColor(STDERR_FILENO);
  launcher.prefix = options.prefix;
  launcher.routing = options.routing;
  plan.counts_attempts = options.max_restarts > 0 && options.scope == launch::RestartScope::kWorld;

  failure = launch::kExitLockstepFailed;
  const absl::Status status = options.coordinator.empty()
                                  ? PlanOwnServer(options, environment, plan)
                                  : PlanForServer(options, plan, failure);
  if (!status.ok()) return status;
  if (options.agent) {
    if (absl::Status agent = PlanAgent(options, environment, plan); !agent.ok()) return agent;
  }
  const int32_t size = launcher.supervisor.size;
  launcher.environment.placement = {.size = size, .local_size = size};
  SetAttempt(plan, 0, launcher.environment);
  plan.join_timeout = launcher.supervisor.node_server_timeout = options.join_timeout;
  plan.last_call = options.last_call;
  return plan;
}

int64_t NumberOf(const Plan& plan, int32_t restarts) { return plan.attempt_before + 1 + restarts; }

void SetAttempt(const Plan& plan, int32_t restarts, launch::RunEnvironment& environment) {
  environment.attempt.restarts = restarts;
  environment.attempt.max_restarts = plan.launcher.supervisor.max_restarts;
  if (plan.counts_attempts) environment.attempt.number = NumberOf(plan, restarts);
}

void PrintEnvironment(const RunOptions& options, const Plan& plan) {
  for (const std::string& why : plan.detected.why) std::printf("# %s\n", why.c_str());
  std::printf("# %s\n", launch::TextOf(plan.nodes, options.nodes).c_str());
  launch::RunEnvironment environment = plan.launcher.environment;
  if (plan.server) {
    environment.address.link = environment.address.grpc = kAddressNotKnown;
    environment.address.store = kAddressNotKnown;
    std::printf("# HOST and PORT are known when the server of this run has started\n");
  }
  if (plan.job_missing) {
    std::printf("# HOST and PORT are known when the run has created job \"%s\" at the server\n",
                environment.address.job.c_str());
  }
  std::vector<launch::Placement> places = {environment.placement};
  if (!plan.nodes.alone()) {
    places = launch::PossiblePlacements(plan.nodes);
    std::printf("# assuming %s%d process%s on each node\n",
                places.size() == 1 ? "that each node gives its rank, and " : "",
                plan.nodes.processes, plan.nodes.processes == 1 ? "" : "es");
  }
  const std::vector<std::string> not_settled = NotSettled(environment, places);
  if (!not_settled.empty()) {
    std::printf("# known only when all nodes have joined: %s\n",
                absl::StrJoin(not_settled, ", ").c_str());
  }
  environment.placement = places.front();
  for (int32_t local = 0; local < environment.placement.local_size; ++local) {
    PrintProcess(environment, not_settled, local);
  }
}

void PrintPlan(const RunOptions& options, const Plan& plan) {
  const launch::RunEnvironment& environment = plan.launcher.environment;
  const launch::Placement& place = environment.placement;
  for (const std::string& why : plan.detected.why) std::printf("%s\n", why.c_str());
  std::printf("%s\n", launch::TextOf(plan.nodes, options.nodes).c_str());
  std::printf("job \"%s\": %d process%s here\n", environment.address.job.c_str(), place.local_size,
              place.local_size == 1 ? "" : "es");
  std::printf("server: %s\n", plan.server
                                  ? absl::StrJoin(plan.server->command.arguments, " ").c_str()
                                  : environment.address.link.c_str());
  if (plan.job_missing) {
    std::printf("the server does not have the job: creates it, with %d members\n",
                plan.nodes.most * plan.nodes.processes);
  }
  std::printf("command: %s (%s)\n", absl::StrJoin(plan.launcher.command.arguments, " ").c_str(),
              plan.launcher.command.path.c_str());
  const launch::SupervisorOptions& supervisor = plan.launcher.supervisor;
  const char* const scope = supervisor.scope == launch::RestartScope::kRank ? "the process"
                            : supervisor.scope == launch::RestartScope::kNode
                                ? "the processes of its node"
                                : "all processes";
  if (supervisor.max_restarts == 0) {
    std::printf("after a failure: no restart\n");
  } else {
    std::printf("after a failure: restarts %s, at most %d times\n", scope, supervisor.max_restarts);
  }
  std::printf("files: %s\n", options.log_folder.empty() ? "none" : options.log_folder.c_str());
}

}  // namespace lockstep::cli

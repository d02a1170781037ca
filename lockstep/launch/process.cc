#include "lockstep/launch/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace lockstep::launch {
namespace {

// From the fork until the command runs, which takes that long only on a dead file system.
constexpr absl::Duration kExecuteTimeout = absl::Seconds(30);

struct Pipe {
  runtime::UniqueFd read_end;
  runtime::UniqueFd write_end;
};

// The machine has no more to give, or does not allow it.
absl::Status Exhausted(std::string_view what) {
  return absl::ResourceExhaustedError(absl::StrCat(std::string(what), ": ", std::strerror(errno)));
}

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Exhausted("cannot make a pipe");
  return Pipe{runtime::UniqueFd(ends[0]), runtime::UniqueFd(ends[1])};
}

void MakeNonBlocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Everything that the child needs, made before the fork: after it, in a process that may have had
// other threads, nothing may allocate or lock.
struct ChildPlan {
  const char* path;
  char* const* arguments;
  char* const* environment;
  const InheritedSignals* signals;
  pid_t parent;
  int guardian_fd;
  int32_t member;
  int null_fd;
  int output_fd;
  int errors_fd;
  int failure_fd;  // takes the errno when the command cannot be executed
};

[[noreturn]] void BecomeCommand(const ChildPlan& plan) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(0);  // it died before the line above
  const Guardian::Entry entry = {.group = ::getpid(), .watch = true, .member = plan.member};
  if (::write(plan.guardian_fd, &entry, sizeof entry) != sizeof entry) ::_exit(0);

  bool ok = ::dup2(plan.null_fd, 0) >= 0 && ::dup2(plan.output_fd, 1) >= 0 &&
            ::dup2(plan.errors_fd, 2) >= 0;
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  if (!plan.signals->pipe_ignored) ok = ok && ::sigaction(SIGPIPE, &by_default, nullptr) == 0;
  ok = ok && ::sigprocmask(SIG_SETMASK, &plan.signals->mask, nullptr) == 0;
  if (ok) ::execve(plan.path, plan.arguments, plan.environment);

  const int error = errno;
  [[maybe_unused]] const ssize_t n = ::write(plan.failure_fd, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Process>> Process::Start(const Command& command,
                                                        const std::vector<std::string>& environment,
                                                        const InheritedSignals& signals,
                                                        Guardian& guardian, int32_t member) {
  absl::StatusOr<Pipe> output = MakePipe();
  if (!output.ok()) return output.status();
  absl::StatusOr<Pipe> errors = MakePipe();
  if (!errors.ok()) return errors.status();
  absl::StatusOr<Pipe> failure = MakePipe();
  if (!failure.ok()) return failure.status();
  const runtime::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return Exhausted("cannot open /dev/null");

  const std::vector<char*> argument_pointers = Pointers(command.arguments);
  const std::vector<char*> environment_pointers = Pointers(environment);
  const ChildPlan plan = {.path = command.path.c_str(),
                          .arguments = argument_pointers.data(),
                          .environment = environment_pointers.data(),
                          .signals = &signals,
                          .parent = ::getpid(),
                          .guardian_fd = guardian.entry_fd(),
                          .member = member,
                          .null_fd = null.get(),
                          .output_fd = output->write_end.get(),
                          .errors_fd = errors->write_end.get(),
                          .failure_fd = failure->write_end.get()};
  const pid_t pid = ::fork();
  if (pid < 0) return Exhausted("cannot start another process");
  if (pid == 0) BecomeCommand(plan);
  // Here as well as in the child: whoever comes first, the group is there before it is signalled.
  ::setpgid(pid, pid);

  std::unique_ptr<Process> process(new Process(pid, guardian));
  process->pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process->pidfd_.valid()) return Exhausted("cannot watch a process by its pidfd");

  // Ends when the child executes the command, or dies; nobody else holds the other end.
  failure->write_end.reset();
  pollfd told = {.fd = failure->read_end.get(), .events = POLLIN, .revents = 0};
  if (::poll(&told, 1, static_cast<int>(absl::ToInt64Milliseconds(kExecuteTimeout))) == 0) {
    return absl::ResourceExhaustedError(absl::StrCat("executing ", command.path, " took more than ",
                                                     absl::FormatDuration(kExecuteTimeout),
                                                     "; does its file system answer?"));
  }
  int error = 0;
  const ssize_t n = ::read(failure->read_end.get(), &error, sizeof error);
  if (n == sizeof error) {
    const std::string why =
        absl::StrCat("cannot execute ", command.path, ": ", std::strerror(error));
    return error == ENOENT ? absl::NotFoundError(why) : absl::FailedPreconditionError(why);
  }
  MakeNonBlocking(output->read_end.get());
  MakeNonBlocking(errors->read_end.get());
  process->output_ = std::move(output->read_end);
  process->errors_ = std::move(errors->read_end);
  return process;
}

Process::~Process() { Release(); }

void Process::Signal(int signal) const {
  if (guardian_ != nullptr) ::kill(-pid_, signal);
}

std::optional<ExitStatus> Process::PollExit() const {
  siginfo_t info = {};
  // Left a zombie: see the class.
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  if (info.si_code == CLD_EXITED) return ExitStatus{.exit_code = info.si_status, .signal = 0};
  return ExitStatus{.exit_code = 0, .signal = info.si_status};
}

std::optional<StateChange> Process::PollStateChange() const {
  siginfo_t info = {};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WCONTINUED | WNOHANG) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  return StateChange{.stopped = info.si_code != CLD_CONTINUED, .signal = info.si_status};
}

void Process::Release() {
  if (guardian_ == nullptr) return;
  ::kill(-pid_, SIGKILL);
  guardian_->Forget(pid_);
  guardian_ = nullptr;
  // Does not wait: what does not end even by SIGKILL is left to init.
  ::waitid(P_PID, static_cast<id_t>(pid_), nullptr, WEXITED | WNOHANG);
}

}  // namespace lockstep::launch

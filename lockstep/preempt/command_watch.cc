#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/preempt/descriptor.h"
#include "lockstep/preempt/local_watches.h"
#include "lockstep/preempt/payload.h"

extern char** environ;

namespace lockstep::preempt {
namespace {

constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

// A shell in a process group of its own, its stdout in a pipe. Killed, with all that it started,
// and reaped at the end.
class Shell {
 public:
  static absl::StatusOr<std::unique_ptr<Shell>> Start(const std::string& command) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return absl::ResourceExhaustedError("cannot make a pipe");
    Descriptor read_end(ends[0]);
    const Descriptor write_end(ends[1]);

    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files, write_end.get(), 1);
    ::posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    // Not as our threads have them: signals blocked, and perhaps caught.
    sigset_t none;
    ::sigemptyset(&none);
    sigset_t all;
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const char* const arguments[] = {"sh", "-c", command.c_str(), nullptr};
    pid_t pid = 0;
    const int error = ::posix_spawn(&pid, "/bin/sh", &files, &attributes,
                                    const_cast<char* const*>(arguments), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&files);
    if (error != 0) {
      return absl::UnavailableError(absl::StrCat("cannot start /bin/sh: ", std::strerror(error)));
    }
    return std::unique_ptr<Shell>(new Shell(pid, std::move(read_end)));
  }
  ~Shell() {
    if (reaped_) return;
    ::kill(-pid_, SIGKILL);
    Reap().IgnoreError();
  }

  // What it writes until it ends, and how it ended (as waitpid has it).
  absl::StatusOr<int> Finish(Time deadline, int interrupt, std::string* output) {
    // Its end is seen by a descriptor of it: something that it left behind may keep the pipe open.
    const Descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    if (end.get() < 0) return absl::UnavailableError("cannot watch the command");
    ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
    // The pipe holds all that is allowed, so it is enough to look into it now and then.
    for (;;) {
      const Waited waited = WaitFor(end.get(), POLLIN, interrupt,
                                    std::min(deadline, runtime::MonotonicNow() + kSlice));
      if (waited == Waited::kInterrupted) return absl::CancelledError("broken off");
      ReadWhatIsThere(output);
      if (waited == Waited::kReady) break;
      if (output->size() > kPayloadBytesMax) {
        return absl::ResourceExhaustedError(
            absl::StrCat("it wrote more than the ", kPayloadBytesMax, " bytes that are allowed"));
      }
      if (runtime::MonotonicNow() >= deadline) {
        return absl::DeadlineExceededError("it did not end in time, and was killed");
      }
    }
    ReadWhatIsThere(output);
    ::kill(-pid_, SIGKILL);  // what it started and left; its own pid is still taken
    return Reap();
  }

 private:
  static constexpr absl::Duration kSlice = absl::Milliseconds(50);

  Shell(pid_t pid, Descriptor output) : pid_(pid), output_(std::move(output)) {
    LOCKSTEP_DCHECK(pid_ > 1);  // its group is killed, which must be no other's
  }

  // Up to a little more than is allowed, so that too much can be told.
  void ReadWhatIsThere(std::string* output) const {
    char bytes[4096];
    while (output->size() <= kPayloadBytesMax) {
      const ssize_t n = ::read(output_.get(), bytes, sizeof bytes);
      if (n <= 0) return;
      output->append(bytes, static_cast<size_t>(n));
    }
  }

  absl::StatusOr<int> Reap() {
    LOCKSTEP_DCHECK(!reaped_);
    int status = 0;
    reaped_ = true;
    while (::waitpid(pid_, &status, 0) < 0) {
      if (errno != EINTR) return absl::UnavailableError("somebody else waited for the command");
    }
    return status;
  }

  const pid_t pid_;
  const Descriptor output_;
  bool reaped_ = false;
};

class CommandWatch final : public Watch {
 public:
  explicit CommandWatch(CommandOptions options) : options_(std::move(options)) {}

  Sight Look(Clock clock, int interrupt) override {
    Sight sight;
    absl::StatusOr<std::vector<Notice>> notices = Ask(clock, interrupt);
    if (notices.ok()) {
      sight.notices = *std::move(notices);
    } else {
      // Without the command's own words, and without the command: it may carry a password.
      sight.health =
          absl::Status(notices.status().code(),
                       absl::StrCat("the command: ", std::string(notices.status().message())));
    }
    sight.next = options_.interval;
    return sight;
  }

  std::string detail() const override { return "a command"; }

 private:
  absl::StatusOr<std::vector<Notice>> Ask(Clock clock, int interrupt) const {
    auto shell = Shell::Start(options_.command);
    if (!shell.ok()) return shell.status();
    std::string output;
    const Time deadline = clock().steady + options_.time_limit;
    const absl::StatusOr<int> status = (*shell)->Finish(deadline, interrupt, &output);
    if (!status.ok()) return status.status();
    if (!WIFEXITED(*status)) {
      return absl::UnavailableError(absl::StrCat("signal ", WTERMSIG(*status), " ended it"));
    }
    const int code = WEXITSTATUS(*status);
    if (code == kCannotExecute || code == kNotFound) {
      return absl::UnavailableError(absl::StrCat("it cannot be executed (exit code ", code, ")"));
    }
    const bool silent = output.find_first_not_of(" \t\r\n") == std::string::npos;
    if (code == 0 && silent) return std::vector<Notice>{};
    auto notices = ParsePayload(clock(), output, code == 0 ? "" : "exit-code");
    // The exit code alone says it.
    if (code != 0 && (!notices.ok() || notices->empty())) {
      notices = std::vector<Notice>{{.id = "exit-code"}};
    }
    if (!notices.ok()) return notices.status();
    for (Notice& notice : *notices) {
      if (notice.text.empty()) notice.text = absl::StrCat("the command says so, exit code ", code);
    }
    return notices;
  }

  const CommandOptions options_;
};

}  // namespace

std::unique_ptr<Watch> MakeCommandWatch(CommandOptions options) {
  return std::make_unique<CommandWatch>(std::move(options));
}

}  // namespace lockstep::preempt

#include "lockstep/launch/guardian.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/launch/run_folder.h"

namespace lockstep::launch {
namespace {

// The search for processes that left their group ends after so many passes: something that forks
// faster than it is killed is not ours to win against.
constexpr int kSweepsMax = 20;
// How long a pass waits for those it killed.
constexpr int kSweepWaitMs = 1000;
// Bytes of an environment that are looked at; Linux allows a quarter of the stack, 2 MiB.
constexpr size_t kEnvironmentBytesMax = 4 << 20;

void KillGroups(const std::vector<pid_t>& groups) {
  for (const pid_t group : groups) ::kill(-group, SIGKILL);
}

std::string ReadEnvironment(const char* pid) {
  std::string block;
  const runtime::UniqueFd fd(
      ::open(absl::StrCat("/proc/", pid, "/environ").c_str(), O_RDONLY | O_CLOEXEC));
  char buffer[16 << 10];
  while (fd.valid() && block.size() < kEnvironmentBytesMax) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n <= 0) break;
    block.append(buffer, static_cast<size_t>(n));
  }
  return block;
}

// Kills all processes of the run; returns their pidfds.
std::vector<runtime::UniqueFd> KillMarked(std::string_view run_id) {
  std::vector<runtime::UniqueFd> killed;
  DIR* const proc = ::opendir("/proc");
  if (proc == nullptr) return killed;
  while (const dirent* entry = ::readdir(proc)) {
    pid_t pid = 0;
    const char* const name_end = entry->d_name + std::strlen(entry->d_name);
    if (std::from_chars(entry->d_name, name_end, pid).ptr != name_end) continue;
    if (pid <= 1 || pid == ::getpid()) continue;
    // Opened before it is looked at: then what is killed is what was looked at.
    runtime::UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!fd.valid() || !BelongsToRun(ReadEnvironment(entry->d_name), run_id)) continue;
    if (::syscall(SYS_pidfd_send_signal, fd.get(), SIGKILL, nullptr, 0) == 0) {
      killed.push_back(std::move(fd));
    }
  }
  ::closedir(proc);
  return killed;
}

// A process that has just been found may have forked just before: until nothing is found.
void Sweep(std::string_view run_id) {
  for (int pass = 0; pass < kSweepsMax; ++pass) {
    const std::vector<runtime::UniqueFd> killed = KillMarked(run_id);
    if (killed.empty()) return;
    for (const runtime::UniqueFd& fd : killed) {
      pollfd ended = {.fd = fd.get(), .events = POLLIN, .revents = 0};
      if (::poll(&ended, 1, kSweepWaitMs) <= 0) break;
    }
  }
}

// Holds nothing of its parent's but the pipe: whoever waits for the end of our output or for the
// release of our folder must not wait for the guardian.
void Detach(int pipe_fd) {
  ::setsid();
  ::prctl(PR_SET_NAME, "lockstep-guard");
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  [[maybe_unused]] const int always_possible = ::chdir("/");
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  if (pipe_fd != 3) ::dup2(pipe_fd, 3);
  ::close_range(4, ~0U, 0);
}

[[noreturn]] void Guard(int pipe_fd, const std::string& run_id,
                        const std::string& temporary_folder) {
  Detach(pipe_fd);
  std::vector<pid_t> groups;
  Guardian::Entry entry;
  while (true) {
    // Entries are written in one piece, so they are read in one piece.
    const ssize_t n = ::read(3, &entry, sizeof entry);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof entry) break;
    if (!entry.watch) {
      std::erase(groups, entry.group);
    } else if (groups.size() < kGuardianGroupsMax && entry.group > 1) {
      groups.push_back(entry.group);
    }
  }
  KillGroups(groups);
  Sweep(run_id);
  RemoveRunFolder(temporary_folder);
  ::_exit(0);
}

}  // namespace

bool BelongsToRun(std::string_view environment_block, std::string_view run_id) {
  constexpr std::string_view kName = "LOCKSTEP_RUN_ID=";
  while (!environment_block.empty()) {
    const size_t end = std::min(environment_block.find('\0'), environment_block.size());
    std::string_view entry = environment_block.substr(0, end);
    environment_block.remove_prefix(std::min(end + 1, environment_block.size()));
    if (entry.substr(0, kName.size()) != kName) continue;
    entry.remove_prefix(kName.size());
    while (true) {
      const size_t colon = std::min(entry.find(':'), entry.size());
      if (entry.substr(0, colon) == run_id) return true;
      if (colon == entry.size()) return false;
      entry.remove_prefix(colon + 1);
    }
  }
  return false;
}

absl::StatusOr<Guardian> Guardian::Start(const std::string& run_id,
                                         const std::string& temporary_folder) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make the pipe to the guardian process");
  }
  runtime::UniqueFd read_end(ends[0]);
  runtime::UniqueFd write_end(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot start the guardian process");
  if (pid == 0) Guard(read_end.get(), run_id, temporary_folder);
  return Guardian(pid, std::move(write_end));
}

Guardian::~Guardian() { Finish(); }

void Guardian::Forget(pid_t group) {
  const Entry entry = {.group = group, .watch = false};
  // Fails only when somebody killed the guardian; then there is nobody to tell.
  [[maybe_unused]] const ssize_t n = ::write(pipe_.get(), &entry, sizeof entry);
}

void Guardian::Finish() {
  if (!pipe_.valid()) return;
  pipe_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace lockstep::launch

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

using Groups = std::vector<Guardian::Entry>;

void KillGroups(const Groups& groups) {
  for (const Guardian::Entry& entry : groups) ::kill(-entry.group, SIGKILL);
}

// By the program that other launchers use for it: this process has no loop, and its parent's
// threads are not its own.
void TellOfEnds(const WhoIsTold& told, const Groups& groups) {
  std::string lines;
  for (const Guardian::Entry& entry : groups) {
    if (entry.member < 0) continue;
    absl::StrAppend(&lines, "ended ", entry.member, " ", entry.group, " 0 ", SIGKILL, "\n");
  }
  int ends[2];
  if (told.address.empty() || lines.empty() || ::pipe2(ends, O_CLOEXEC) != 0) return;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(ends[0], 0);
    ::execl("/proc/self/exe", "lockstep", "report-processes", told.job.c_str(), "--coordinator",
            told.address.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[0]);
  for (size_t at = 0; pid > 0 && at < lines.size();) {
    const ssize_t n = ::write(ends[1], lines.data() + at, lines.size() - at);
    if (n < 0 && errno != EINTR) break;  // it has gone, and then nobody is told
    at += static_cast<size_t>(std::max<ssize_t>(n, 0));
  }
  ::close(ends[1]);
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

[[noreturn]] void Guard(int pipe_fd, const std::string& run_id, const std::string& temporary_folder,
                        const WhoIsTold& told) {
  Detach(pipe_fd);
  Groups groups;
  bool in_order = false;
  Guardian::Entry entry;
  while (true) {
    // Entries are written in one piece, so they are read in one piece.
    const ssize_t n = ::read(3, &entry, sizeof entry);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof entry) break;
    if (entry.group == 0) {
      in_order = true;
    } else if (!entry.watch) {
      std::erase_if(groups, [&](const auto& each) { return each.group == entry.group; });
    } else if (groups.size() < kGuardianGroupsMax && entry.group > 1) {
      groups.push_back(entry);
    }
  }
  KillGroups(groups);
  Sweep(run_id);
  RemoveRunFolder(temporary_folder);
  if (!in_order) TellOfEnds(told, groups);
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
                                         const std::string& temporary_folder,
                                         const WhoIsTold& told) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make the pipe to the guardian process");
  }
  runtime::UniqueFd read_end(ends[0]);
  runtime::UniqueFd write_end(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "cannot start the guardian process");
  if (pid == 0) Guard(read_end.get(), run_id, temporary_folder, told);
  return Guardian(pid, std::move(write_end));
}

Guardian::~Guardian() { Finish(); }

void Guardian::Forget(pid_t group) {
  const Entry entry = {.group = group};
  // Fails only when somebody killed the guardian; then there is nobody to tell.
  [[maybe_unused]] const ssize_t n = ::write(pipe_.get(), &entry, sizeof entry);
}

void Guardian::Finish() {
  if (!pipe_.valid()) return;
  const Entry in_order;
  [[maybe_unused]] const ssize_t n = ::write(pipe_.get(), &in_order, sizeof in_order);
  pipe_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace lockstep::launch

#include "lockstep/launch/tool_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::launch {

std::optional<std::string> OutputOf(const std::vector<std::string>& words, absl::Duration timeout) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const runtime::UniqueFd reading(ends[0]);
  runtime::UniqueFd writing(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, writing.get(), 1);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int failed =
      ::posix_spawn(&pid, words.front().c_str(), &actions, &attributes, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0) return std::nullopt;
  writing.reset();

  std::string output;
  bool whole = false;
  const Time deadline = runtime::MonotonicNow() + timeout;
  while (!whole && output.size() < kToolOutputBytesMax) {
    const auto left =
        static_cast<int>(absl::ToInt64Milliseconds(deadline - runtime::MonotonicNow()));
    pollfd ready = {.fd = reading.get(), .events = POLLIN, .revents = 0};
    const int found = left > 0 ? ::poll(&ready, 1, left) : 0;
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) break;
    std::array<char, 1 << 16> bytes;
    const ssize_t count = ::read(reading.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    output.append(bytes.data(), static_cast<size_t>(count));
    whole = count == 0;
  }
  if (!whole) ::kill(pid, SIGKILL);
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(pid, &status, 0)) < 0 && errno == EINTR) {
  }
  // As PID 1 of a container somebody else may have reaped it; what it said counts.
  const bool well = ended != pid || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return whole && well ? std::optional(std::move(output)) : std::nullopt;
}

}  // namespace lockstep::launch

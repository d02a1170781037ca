// What the tests of real processes share. Tests only.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/launch/process.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::launch {

// Generous: reached only when something hangs.
inline constexpr absl::Duration kTestDeadline = absl::Seconds(60);

inline Command Shell(const std::string& script) {
  return {.path = "/bin/sh", .arguments = {"sh", "-c", script}};
}

// A process by its pid, so that its end can be waited for though it is nobody's child here.
class Watched {
 public:
  explicit Watched(pid_t pid) : pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}

  bool known() const { return pidfd_.valid(); }

  // True when it is gone, at the latest at the deadline.
  bool WaitGone() const {
    if (!known()) return true;
    pollfd ended = {.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(kTestDeadline))) == 1;
  }

 private:
  runtime::UniqueFd pidfd_;
};

// A folder of its own, removed with the plain files in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = testing::TempDir() + "lockstep-launch-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TemporaryFolder() {
    const std::string command = "rm -rf '" + path_ + "'";
    [[maybe_unused]] const int ignored = std::system(command.c_str());
  }
  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, const std::string& text, mode_t mode) const {
    const std::string path = path_ + "/" + name;
    const runtime::UniqueFd fd(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
    EXPECT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    return path;
  }

 private:
  std::string path_;
};

// Runs the loop until somebody stops it; fails the test at the deadline.
inline void RunLoop(runtime::Loop& loop) {
  runtime::Timer deadline(loop);
  deadline.Arm(runtime::MonotonicNow() + kTestDeadline, [&loop] {
    ADD_FAILURE() << "nothing came to an end within " << kTestDeadline;
    loop.Stop();
  });
  loop.Run();
}

}  // namespace lockstep::launch

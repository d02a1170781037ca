// A rendezvous_worker as a process of its own. Tests only.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "lockstep/base/check.h"
#include "tests/spawn_process.h"

namespace lockstep::faults {

// For anything to happen; far more than it takes.
constexpr auto kPatience = std::chrono::seconds(90);

// Threads: one writes commands and one reads answers, if they like.
class WorkerProcess {
 public:
  WorkerProcess() {
    ::signal(SIGPIPE, SIG_IGN);  // of those that were killed
    int in[2] = {};
    int out[2] = {};
    LOCKSTEP_CHECK(::pipe2(in, O_CLOEXEC) == 0 && ::pipe2(out, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    pid_ = SpawnProcess({LOCKSTEP_WORKER_PROGRAM}, &actions);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    in_ = in[1];
    out_ = out[0];
  }
  ~WorkerProcess() {
    Signal(SIGKILL);
    Wait();
    ::close(in_);
    ::close(out_);
  }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  void Signal(int signal) const {
    if (!status_.has_value()) ::kill(pid_, signal);
  }
  bool ended() {
    int status = 0;
    if (!status_.has_value() && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    return status_.has_value();
  }
  // How it ended, as `waitpid` says.
  int Wait() {
    if (!status_.has_value()) {
      int status = 0;
      ::waitpid(pid_, &status, 0);
      status_ = status;
    }
    return *status_;
  }
  // Returns when it has stopped.
  void AwaitStopped() const {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (::waitpid(pid_, nullptr, WUNTRACED | WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > until) {
        ADD_FAILURE() << "worker " << pid_ << " does not stop";
        return;
      }
      std::this_thread::yield();
    }
  }

  // When it has ended, nothing.
  void Say(const std::string& command) const {
    const std::string line = command + "\n";
    static_cast<void>(!::write(in_, line.data(), line.size()));
  }

  // The next line; nothing when it has ended.
  std::optional<std::string> Hear() {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      if (const size_t end = heard_.find('\n'); end != std::string::npos) {
        std::string line = heard_.substr(0, end);
        heard_.erase(0, end + 1);
        return line;
      }
      pollfd ready = {.fd = out_, .events = POLLIN};
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          until - std::chrono::steady_clock::now());
      if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) {
        ADD_FAILURE() << "worker " << pid_ << " says nothing";
        return std::nullopt;
      }
      char bytes[4096];
      const ssize_t count = ::read(out_, bytes, sizeof(bytes));
      if (count <= 0) return std::nullopt;
      heard_.append(bytes, static_cast<size_t>(count));
    }
  }
  std::string Ask(const std::string& command) {
    Say(command);
    return Hear().value_or("(it has ended)");
  }
  void Expect(const std::string& command) {
    const std::string answer = Ask(command);
    EXPECT_TRUE(answer.starts_with("ok")) << command << ": " << answer;
  }
  // Of "ok NAME=NUMBER ...".
  std::map<std::string, int64_t> Stats() {
    std::map<std::string, int64_t> stats;
    const std::vector<std::string> words = absl::StrSplit(Ask("stats"), ' ');
    for (const std::string& each : words) {
      const std::pair<std::string, std::string> pair = absl::StrSplit(each, '=');
      int64_t number = 0;
      if (absl::SimpleAtoi(pair.second, &number)) stats[pair.first] = number;
    }
    EXPECT_FALSE(stats.empty());
    return stats;
  }

 private:
  pid_t pid_ = 0;
  int in_ = -1;
  int out_ = -1;
  std::string heard_;
  std::optional<int> status_;
};

}  // namespace lockstep::faults

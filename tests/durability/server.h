// A server that is killed and started again, for tests. Its state is in a directory that is kept
// when the test fails. Tests only.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace lockstep {

using Clock = std::chrono::steady_clock;

// What sanitizers keep for themselves tells nothing of a process's memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// For anything to happen; far more than it takes.
constexpr auto kPatience = std::chrono::seconds(90);

inline std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// One server after the other, on one directory and at one address.
class Server {
 public:
  // `job`: NAME=SIZE. `more`: options of the server. `address_space`: as by `ulimit -v`, in bytes;
  // 0: as much as there is.
  explicit Server(std::string job, std::vector<std::string> more = {}, rlim_t address_space = 0)
      : job_(std::move(job)), more_(std::move(more)), address_space_(address_space) {
    char path[] = "/tmp/lockstep-restarts-XXXXXX";
    directory_ = mkdtemp(path);
    Start("127.0.0.1:0");
    const auto until = Clock::now() + kPatience;
    while (address_.empty() && Clock::now() < until) {
      const auto ready = nlohmann::json::parse(Read(ready_file()), nullptr, false);
      if (ready.is_object()) address_ = ready["listen"];
      std::this_thread::yield();
    }
  }
  ~Server() {
    Kill();
    if (!testing::Test::HasFailure()) std::filesystem::remove_all(directory_);
  }

  const std::string& address() const { return address_; }
  const std::string& directory() const { return directory_; }
  pid_t pid() const { return pid_; }

  void Kill() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void Restart() { Start(address_); }
  // False: it has ended by itself, or cannot start.
  bool Runs() {
    int status = 0;
    return waitpid(pid_, &status, WNOHANG) == 0;
  }
  // The most memory that it ever had since it was started.
  int64_t PeakBytes() const {
    std::istringstream status(Read("/proc/" + std::to_string(pid_) + "/status"));
    const std::string name = "VmHWM:";
    for (std::string line; std::getline(status, line);) {
      if (line.rfind(name, 0) == 0) return std::stoll(line.substr(name.size())) << 10;
    }
    ADD_FAILURE() << "the server is not there";
    return 0;
  }
  // As an operator does; returns its exit code.
  int Terminate() {
    kill(pid_, SIGTERM);
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string Log() const { return Read(directory_ + "/log"); }

 private:
  std::string ready_file() const { return directory_ + "/ready"; }

  void Start(const std::string& listen) {
    const std::string log = directory_ + "/log";
    std::vector<std::string> line = {
        "lockstep-server", "--listen",   listen,  "--state", directory_ + "/state",
        "--ready-file",    ready_file(), "--job", job_};
    line.insert(line.end(), more_.begin(), more_.end());
    std::vector<char*> arguments;
    for (std::string& each : line) arguments.push_back(each.data());
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    const rlimit limit = {.rlim_cur = address_space_, .rlim_max = address_space_};
    if (address_space_ != 0 && setrlimit(RLIMIT_AS, &limit) != 0) _exit(126);
    execv(LOCKSTEP_SERVER_PROGRAM, arguments.data());
    _exit(127);
  }

  const std::string job_;
  const std::vector<std::string> more_;
  const rlim_t address_space_;
  std::string directory_;
  std::string address_;
  pid_t pid_ = 0;
};

}  // namespace lockstep

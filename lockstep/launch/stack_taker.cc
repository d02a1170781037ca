#include "lockstep/launch/stack_taker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/launch/find_program.h"
#include "lockstep/runtime/loop.h"
#include "lockstep/runtime/unique_fd.h"

namespace lockstep::launch {
namespace {

// Of one tool's output: `stack_output_bytes_max`.
constexpr size_t kStackOutputBytesMax = 4 << 20;
// faulthandler says nothing at its end: a dump that has not grown for so many looks is whole.
constexpr int kQuietLooks = 5;
constexpr absl::Duration kLookInterval = absl::Milliseconds(10);

// A real-time signal, which no program of ours and hardly any other uses.
int StackSignal() { return SIGRTMAX - 6; }

constexpr char kHook[] =
    R"(# Written by `lockstep run`, so that `lockstep stacks` can ask this process where it is.
import os
import sys


def _answer_questions():
    import faulthandler

    # Closed by the process's end alone; a forked child has another, when it is asked for.
    path = os.path.join(os.path.dirname(__file__), str(os.getpid()))
    faulthandler.register(%d, file=open(path, "ab", buffering=0), all_threads=True)


def _import_the_next():
    import importlib.machinery
    import importlib.util

    here = os.path.dirname(__file__)
    sys.path[:] = [entry for entry in sys.path if entry != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


try:
    _answer_questions()
except Exception:
    pass  # no stacks, then: a training does not fail for that
_import_the_next()
)";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::string Line(const std::string& text, const std::string& name) {
  const size_t begin = text.find(absl::StrCat("\n", name, ":\t"));
  if (begin == std::string::npos) return "";
  const size_t value = begin + name.size() + 3;
  return text.substr(value, text.find('\n', value) - value);
}

std::string StateOf(const std::string& status) {
  const std::string state = Line(status, "State");
  switch (state.empty() ? '\0' : state.front()) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "waiting for the disk or a device";
    case 'T':
    case 't':
      return "stopped";
    default:
      return "ended";
  }
}

bool Catches(const std::string& status, int signal) {
  const uint64_t caught = std::strtoull(Line(status, "SigCgt").c_str(), nullptr, 16);
  return (caught >> (signal - 1) & 1) != 0;
}

off_t SizeOf(const std::string& path) {
  struct stat file = {};
  return ::stat(path.c_str(), &file) == 0 ? file.st_size : -1;
}

// What a program prints, when it ends well in time.
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
  while (!whole && output.size() < kStackOutputBytesMax) {
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

std::optional<std::string> Tool(const std::string& name) {
  const char* const path = std::getenv("PATH");
  auto found = FindProgram(name, path != nullptr ? path : "/usr/bin:/bin");
  return found.ok() ? std::optional(*std::move(found)) : std::nullopt;
}

std::optional<std::vector<ThreadStack>> ByPySpy(int64_t pid) {
  const auto tool = Tool("py-spy");
  if (!tool) return std::nullopt;
  const auto output =
      OutputOf({*tool, "dump", "--full-filenames", "--pid", absl::StrCat(pid)}, kStackTimeout);
  if (!output) return std::nullopt;
  auto threads = ParsePySpy(*output);
  if (threads.empty()) return std::nullopt;
  return threads;
}

std::optional<std::vector<ThreadStack>> ByGdb(int64_t pid) {
  const auto tool = Tool("gdb");
  if (!tool) return std::nullopt;
  const auto output = OutputOf({*tool, "-nx", "-batch", "-p", absl::StrCat(pid), "-ex",
                                absl::StrCat("thread apply all bt ", kStackFramesMax)},
                               4 * kStackTimeout);
  if (!output) return std::nullopt;
  auto threads = ParseGdb(*output);
  if (threads.empty()) return std::nullopt;
  return threads;
}

// What the process writes into its file when it is asked.
std::optional<std::vector<ThreadStack>> ByHook(int64_t pid, const std::string& status,
                                               const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", pid);
  const off_t before = folder.empty() ? -1 : SizeOf(path);
  if (before < 0 || !Catches(status, StackSignal())) return std::nullopt;
  if (::kill(static_cast<pid_t>(pid), StackSignal()) != 0) return std::nullopt;
  const Time deadline = runtime::MonotonicNow() + kStackTimeout;
  off_t size = before;
  for (int quiet = 0; quiet < kQuietLooks && runtime::MonotonicNow() < deadline;) {
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(kLookInterval));
    const off_t now = SizeOf(path);
    quiet = now == size && size > before ? quiet + 1 : 0;
    size = now;
  }
  if (size <= before) return std::nullopt;
  return ParseFaulthandler(ReadFile(path).substr(static_cast<size_t>(before)));
}

}  // namespace

absl::Status WriteStackHook(const std::string& folder) {
  std::ofstream(absl::StrCat(folder, "/sitecustomize.py")) << absl::StrFormat(kHook, StackSignal());
  // Python would keep what it compiled in a folder of this name.
  std::ofstream(absl::StrCat(folder, "/__pycache__"));
  if (SizeOf(absl::StrCat(folder, "/sitecustomize.py")) <= 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot write in ", folder, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

void AddStackHook(const std::string& folder, RunEnvironment& environment) {
  Environment& place =
      environment.extra.contains("PYTHONPATH") ? environment.extra : environment.inherited;
  std::string& path = place["PYTHONPATH"];
  path = path.empty() ? folder : absl::StrCat(folder, ":", path);
}

std::optional<int64_t> RunsOf(int64_t pid) {
  const std::string status = ReadFile(absl::StrCat("/proc/", pid, "/status"));
  int64_t voluntary = 0;
  int64_t involuntary = 0;
  if (!absl::SimpleAtoi(Line(status, "voluntary_ctxt_switches"), &voluntary) ||
      !absl::SimpleAtoi(Line(status, "nonvoluntary_ctxt_switches"), &involuntary)) {
    return std::nullopt;
  }
  return voluntary + involuntary;
}

ProcessStacks TakeStacks(const StackQuestion& question, const std::string& folder) {
  ProcessStacks process = {.member = question.member,
                           .name = question.name,
                           .host = question.host,
                           .pid = question.pid,
                           .source = "kernel"};
  const std::string proc = absl::StrCat("/proc/", question.pid);
  const std::string status = ReadFile(absl::StrCat(proc, "/status"));
  process.state = StateOf(status);
  if (process.state == "ended") return process;
  process.waits_in = ReadFile(absl::StrCat(proc, "/wchan"));
  if (process.waits_in == "0") process.waits_in.clear();
  const auto take = [&](const char* source, std::optional<std::vector<ThreadStack>> threads) {
    if (!threads) return false;
    process.source = source;
    process.threads = *std::move(threads);
    return true;
  };
  if (question.native && take("gdb", ByGdb(question.pid))) return process;
  if (process.state == "stopped") {
    process.note = "it cannot answer while it is stopped; py-spy could tell";
  }
  if (take("py-spy", ByPySpy(question.pid))) {
    process.note.clear();
  } else if (process.state != "stopped" &&
             !take("faulthandler", ByHook(question.pid, status, folder))) {
    process.note = "no Python that answers; `lockstep stacks --native` asks gdb";
  }
  return process;
}

}  // namespace lockstep::launch

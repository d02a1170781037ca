#include "lockstep/launch/stack_taker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/launch/find_program.h"
#include "lockstep/launch/python_hook.h"
#include "lockstep/launch/read_file.h"
#include "lockstep/launch/tool_output.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::launch {
namespace {

// From the question to a Python thread that answers at once when it gets to run.
constexpr absl::Duration kThreadTimeout = absl::Seconds(2);
// faulthandler says nothing at its end: a dump that has not grown for so many looks is whole.
constexpr int kQuietLooks = 5;
constexpr absl::Duration kLookInterval = absl::Milliseconds(10);
static_assert(kLookInterval < kThreadTimeout && kThreadTimeout < kStackTimeout);

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

std::optional<std::string> Tool(const std::string& name) {
  const char* const path = std::getenv("PATH");
  auto found = FindProgram(name, path != nullptr ? path : "/usr/bin:/bin");
  return found.ok() ? std::optional(*std::move(found)) : std::nullopt;
}

std::optional<std::vector<ThreadStack>> ByPySpy(int64_t pid) {
  const auto tool = Tool("py-spy");
  if (!tool) return std::nullopt;
  const auto output =
      OutputOf({*tool, "dump", "--nonblocking", "--full-filenames", "--pid", absl::StrCat(pid)},
               kStackTimeout);
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

// Names each question of this launcher, so that a late answer is not taken for that to the next.
int64_t NextQuestion() {
  static std::atomic<int64_t> last = 0;
  return ++last;
}

// What the hook's thread writes into the process's file. Nothing: there is no such thread, or it
// does not get to run, since C code holds the interpreter.
std::optional<std::vector<ThreadStack>> ByThread(int64_t pid, const std::string& folder) {
  const std::string path = AnswerPath(folder, pid);
  const off_t before = folder.empty() ? -1 : SizeOf(path);
  if (before < 0) return std::nullopt;
  const runtime::UniqueFd pipe(
      ::open(QuestionPipePath(folder, pid).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  const std::string id = absl::StrCat(NextQuestion());
  const std::string question = absl::StrCat(id, "\n");
  // Full: it has not answered for long, and the questions before are enough.
  if (!pipe.valid() || ::write(pipe.get(), question.data(), question.size()) < 0) {
    return std::nullopt;
  }
  const std::string end = absl::StrCat("\ntold ", id, "\n");
  const Time deadline = runtime::MonotonicNow() + kThreadTimeout;
  while (runtime::MonotonicNow() < deadline) {
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(kLookInterval));
    if (SizeOf(path) <= before) continue;
    const std::string text = ReadFile(path).substr(static_cast<size_t>(before));
    const size_t told = text.find(end);
    if (told == std::string::npos) continue;
    const size_t begin = text.find(absl::StrCat("\nasked ", id, " "));
    return begin < told ? ParseThreadDump(text.substr(begin, told - begin))
                        : std::vector<ThreadStack>();
  }
  return std::nullopt;
}

// What the process writes into its file when it is signalled.
std::optional<std::vector<ThreadStack>> BySignal(int64_t pid, const std::string& status,
                                                 const std::string& folder) {
  const std::string path = AnswerPath(folder, pid);
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

// The system calls in which programs wait, where the kernel does not tell its own function.
std::string SystemCallOf(const std::string& proc) {
  static const std::map<int64_t, const char*> kNames = {
    {SYS_futex, "futex"},
    {SYS_ppoll, "ppoll"},
    {SYS_epoll_pwait, "epoll_pwait"},
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_accept, "accept"},
    {SYS_connect, "connect"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "clock_nanosleep"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_pselect6, "pselect6"},
    {SYS_ioctl, "ioctl"},
#if defined(SYS_poll)
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_pause, "pause"},
#endif
  };
  const std::string text = ReadFile(absl::StrCat(proc, "/syscall"));
  int64_t number = 0;
  if (!absl::SimpleAtoi(text.substr(0, text.find(' ')), &number)) return "";
  const auto found = kNames.find(number);
  return found != kNames.end() ? found->second : absl::StrCat("system call ", number);
}

}  // namespace

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
  const std::string call = process.state == "running" ? "" : SystemCallOf(proc);
  if (process.waits_in.empty()) process.waits_in = call;
  const auto take = [&](const char* source, std::optional<std::vector<ThreadStack>> threads) {
    if (!threads || threads->empty()) return false;
    process.source = source;
    process.threads = *std::move(threads);
    return true;
  };
  if (question.native && take("gdb", ByGdb(question.pid))) return process;
  const bool stopped = process.state == "stopped";
  if (!stopped && take("faulthandler", ByThread(question.pid, folder))) return process;
  if (take("py-spy", ByPySpy(question.pid))) return process;
  if (!stopped && question.signal && take("faulthandler", BySignal(question.pid, status, folder))) {
    return process;
  }
  if (stopped) {
    process.note = "it cannot answer while it is stopped; py-spy could tell";
  } else if (!folder.empty() && SizeOf(AnswerPath(folder, question.pid)) >= 0) {
    process.note =
        absl::StrCat("its Python does not answer: C code holds the interpreter",
                     call.empty() ? "" : absl::StrCat(", in ", call),
                     "; `lockstep stacks --signal` interrupts it to ask, `--native` asks gdb");
  } else {
    process.note = "no Python that answers; `lockstep stacks --native` asks gdb";
  }
  return process;
}

}  // namespace lockstep::launch

#include "lockstep/data/engine/function_host.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lockstep/data/engine/frame.h"
#include "lockstep/data/plan/error.h"
#include "lockstep/platform/runtime/loop.h"

extern char** environ;

namespace lockstep::engine {
namespace {

// Of all results of one call: `function_results_bytes_max`.
constexpr uint64_t kResultsBytesMax = uint64_t{4} << 30;
constexpr uint64_t kErrorsBytesMax = 16 << 20;
// Python, and whatever the user's module imports: `function_start_timeout`.
constexpr absl::Duration kStartTimeout = absl::Seconds(120);
constexpr size_t kPiecesMax = 64;
constexpr int kHostsDescriptor = 3;

absl::StatusOr<pid_t> Spawn(const std::string& python, int socket) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  // What it prints goes where our own log goes.
  ::posix_spawn_file_actions_adddup2(&files, 2, 1);
  ::posix_spawn_file_actions_adddup2(&files, socket, kHostsDescriptor);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  sigset_t all;
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  // A group of its own: Ctrl-C is for us, and it ends when we do.
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const std::string parent = absl::StrCat(::getpid());
  // The working directory may be one of data, where others may write a module of any name.
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, "PYTHONSAFEPATH=")) variables.push_back(*variable);
  }
  std::string safe_path = "PYTHONSAFEPATH=1";
  variables.push_back(safe_path.data());
  variables.push_back(nullptr);
  const char* const arguments[] = {python.c_str(), "-m", "lockstep.data._function_host",
                                   parent.c_str(), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, python.c_str(), &files, &attributes,
                                   const_cast<char* const*>(arguments), variables.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot start ", python, " for Python functions: ", std::strerror(error)));
  }
  return pid;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FunctionHost>> FunctionHost::Start(const std::string& python,
                                                                  const Function& function,
                                                                  FunctionGrant grant, int stop) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ResourceExhaustedError("no descriptors are left for a Python function's process");
  }
  runtime::UniqueFd ours(ends[0]);
  runtime::UniqueFd theirs(ends[1]);
  // adddup2 of a descriptor to itself would leave it close-on-exec.
  if (theirs.get() == kHostsDescriptor) {
    theirs.reset(::fcntl(theirs.get(), F_DUPFD_CLOEXEC, kHostsDescriptor + 1));
  }
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  const auto pid = Spawn(python, theirs.get());
  if (!pid.ok()) return pid.status();
  theirs.reset();
  std::unique_ptr<FunctionHost> host(new FunctionHost(*pid, std::move(ours), stop));
  absl::Status status = host->Send(
      Kind::kDefine, {},
      absl::StrCat(function.reference, "\n", ToText(function.input), "\n", ToText(function.output),
                   "\n", grant == FunctionGrant::kByName ? "name" : "module"),
      kStartTimeout);
  if (!status.ok()) return status;
  const auto head = host->ReadHead(kStartTimeout);
  if (!head.ok()) return head.status();
  if (head->kind == Kind::kReady) return host;
  std::string why(std::min(head->bytes, kErrorsBytesMax), '\0');
  status = host->Read(reinterpret_cast<std::byte*>(why.data()), why.size(), kStartTimeout);
  if (!status.ok()) return status;
  return plan::Error(absl::StatusCode::kInvalidArgument, plan::kFunctionFailed,
                     absl::StrCat(function.reference, " cannot be run: ", why));
}

FunctionHost::~FunctionHost() {
  if (reaped_) return;
  // With all that it has started.
  ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::Status FunctionHost::Died() {
  ::kill(-pid_, SIGKILL);
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(pid_, &status, 0)) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  std::string how = "ended";
  if (ended == pid_ && WIFSIGNALED(status)) how = absl::StrCat("died by signal ", WTERMSIG(status));
  if (ended == pid_ && WIFEXITED(status)) {
    how = absl::StrCat("exited with code ", WEXITSTATUS(status));
  }
  return absl::UnavailableError(absl::StrCat("the process of the Python function ", how));
}

absl::Status FunctionHost::Await(short events, Time deadline, std::string_view late) {
  const auto left = absl::ToInt64Milliseconds(deadline - runtime::MonotonicNow());
  if (left <= 0) return absl::DeadlineExceededError(std::string(late));
  pollfd ready[2] = {{.fd = socket_.get(), .events = events, .revents = 0},
                     {.fd = stop_, .events = POLLIN, .revents = 0}};
  ::poll(ready, 2, static_cast<int>(std::min<int64_t>(left, 60'000)));
  if (ready[1].revents != 0) return absl::CancelledError("Python functions are not run any more");
  return absl::OkStatus();
}

absl::Status FunctionHost::Send(Kind kind, std::span<const Element> elements, std::string_view text,
                                absl::Duration timeout) {
  Head head = {.kind = kind, .count = static_cast<uint32_t>(elements.size()), .bytes = text.size()};
  for (const Element& element : elements) head.bytes += element.bytes();
  std::vector<iovec> pieces = {{&head, sizeof(head)}};
  if (!text.empty()) pieces.push_back({const_cast<char*>(text.data()), text.size()});
  for (const Element& element : elements) {
    pieces.push_back({const_cast<std::byte*>(element.frame().data()), element.frame().size()});
  }
  const Time deadline = runtime::MonotonicNow() + timeout;
  size_t at = 0;
  while (at < pieces.size()) {
    msghdr message = {};
    message.msg_iov = pieces.data() + at;
    message.msg_iovlen = std::min(kPiecesMax, pieces.size() - at);
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      const absl::Status status = Await(POLLOUT, deadline, "it took no more elements");
      if (!status.ok()) return status;
      continue;
    }
    if (sent < 0) return Died();
    auto done = static_cast<size_t>(sent);
    while (at < pieces.size() && done >= pieces[at].iov_len) done -= pieces[at++].iov_len;
    if (at < pieces.size()) {
      pieces[at].iov_base = static_cast<char*>(pieces[at].iov_base) + done;
      pieces[at].iov_len -= done;
    }
  }
  return absl::OkStatus();
}

absl::Status FunctionHost::Read(std::byte* to, uint64_t bytes, absl::Duration timeout) {
  const Time deadline = runtime::MonotonicNow() + timeout;
  uint64_t done = 0;
  while (done < bytes) {
    const ssize_t n = ::recv(socket_.get(), to + done, bytes - done, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      const absl::Status status = Await(POLLIN, deadline, "it did not answer");
      if (!status.ok()) return status;
      continue;
    }
    if (n <= 0) return Died();
    done += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<FunctionHost::Head> FunctionHost::ReadHead(absl::Duration timeout) {
  Head head = {};
  absl::Status status = Read(reinterpret_cast<std::byte*>(&head), sizeof(head), timeout);
  if (!status.ok()) return status;
  return head;
}

absl::StatusOr<std::vector<FunctionResult>> FunctionHost::Call(std::span<const Element> elements,
                                                               absl::Duration timeout,
                                                               const Allocator& allocator) {
  absl::Status status = Send(Kind::kCall, elements, {}, timeout);
  if (!status.ok()) return status;
  absl::StatusOr<Head> head;
  do head = ReadHead(timeout);
  while (head.ok() && head->kind == Kind::kBusy);
  if (!head.ok()) return head.status();
  const auto broken = [] {
    return absl::InternalError("the process of the Python function answers nonsense");
  };
  if (head->kind != Kind::kResults || head->bytes > kResultsBytesMax || head->bytes < 64) {
    return broken();
  }
  auto memory = allocator(head->bytes);
  if (!memory.ok()) return memory.status();
  const std::byte* const body = (*memory)->data();
  status = Read((*memory)->data(), head->bytes, timeout);
  if (!status.ok()) return status;

  std::vector<FunctionResult> results(elements.size());
  uint64_t errors = 0;
  std::memcpy(&errors, body, sizeof(errors));
  if (errors > head->bytes - 8) return broken();
  for (uint64_t at = 8; at < 8 + errors;) {
    uint32_t entry[2];
    if (8 + errors - at < sizeof(entry)) return broken();
    std::memcpy(entry, body + at, sizeof(entry));
    at += sizeof(entry);
    if (entry[0] >= results.size() || entry[1] > 8 + errors - at || entry[1] == 0) return broken();
    results[entry[0]].error.assign(reinterpret_cast<const char*>(body) + at, entry[1]);
    at += entry[1];
  }
  uint64_t at = (8 + errors + 63) / 64 * 64;
  for (FunctionResult& result : results) {
    if (!result.error.empty()) continue;
    // The length that a frame says of itself; the frame is parsed by whoever takes it.
    uint64_t bytes = 0;
    if (at > head->bytes || head->bytes - at < kFrameHeaderBytes) return broken();
    std::memcpy(&bytes, body + at + kFrameBytesAt, sizeof(bytes));
    if (bytes < kFrameHeaderBytes || bytes % kFrameAlignment != 0 || bytes > head->bytes - at) {
      return broken();
    }
    Seal({(*memory)->data() + at, bytes});
    result.element = Element(*memory, at, bytes);
    at += bytes;
  }
  return results;
}

}  // namespace lockstep::engine

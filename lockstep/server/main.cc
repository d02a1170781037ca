// `lockstep-server`, which `lockstep serve` executes. Exit codes: 0 drained, 1 could not serve,
// 2 wrong options.
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "lockstep/base/mutex.h"
#include "lockstep/observe/log_limiter.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/open_files.h"
#include "lockstep/platform/runtime/standard_files.h"
#include "lockstep/server/command_line.h"
#include "lockstep/server/log.h"
#include "lockstep/server/parent_watch.h"
#include "lockstep/server/server.h"
#include "spdlog/spdlog.h"

namespace {

// gRPC's own complaints, which whoever reaches a port can cause: a few at a time.
void LogOfGrpc(gpr_log_func_args* said) {
  constexpr int kLines = 10;
  constexpr absl::Duration kInterval = absl::Seconds(10);
  static lockstep::Mutex mutex;
  static lockstep::observe::LogLimiter limiter(kLines, kInterval);
  std::optional<std::string> line;
  {
    const lockstep::MutexLock lock(mutex);
    line = limiter.Pass(lockstep::runtime::MonotonicNow(), said->message);
  }
  if (line) spdlog::warn("gRPC: {}", *line);
}

// Writes what is left when `main` ends.
struct LogFlusher {
  ~LogFlusher() { spdlog::shutdown(); }
};

// Of a process that was executed anew: there was a state, so it makes none.
constexpr char kBegunAnew[] = "LOCKSTEP_BEGUN_ANEW";

// Stands by. All that this process knew may be wrong by now, and all connections go with it.
int BeginAnew(char** argv, const absl::Status& why) {
  spdlog::warn("{}; starting again, to stand by", std::string(why.message()));
  spdlog::shutdown();
  setenv(kBegunAnew, "1", /*overwrite=*/1);
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  execv("/proc/self/exe", argv);
  std::fprintf(stderr, "lockstep-server: cannot start again: %s\n", std::strerror(errno));
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::runtime::OpenStandardFiles();
  auto parsed = lockstep::server::ParseCommandLine(argc, argv);
  if (auto* end = std::get_if<lockstep::server::EndNow>(&parsed)) {
    const bool written =
        std::fputs(end->text.c_str(), end->exit_code == 0 ? stdout : stderr) >= 0 &&
        std::fflush(stdout) == 0;
    if (written || errno == EPIPE) return end->exit_code;
    std::fprintf(stderr, "lockstep-server: cannot write to standard output: %s\n",
                 std::strerror(errno));
    return 1;
  }
  auto& [options, warnings] = std::get<lockstep::server::ParsedOptions>(parsed);
  if (options.etcd && std::getenv(kBegunAnew) != nullptr) options.etcd->make_state = false;
  lockstep::server::SetUpLog(options.log_format, options.verbose);
  gpr_set_log_function(&LogOfGrpc);
  // protobuf's complaints about clients' bytes are answered to the client, with more to go on.
  google::protobuf::SetLogHandler(nullptr);
  const LogFlusher flusher;
  for (const std::string& warning : warnings) spdlog::warn("{}", warning);
  // Each client is a descriptor.
  if (!lockstep::runtime::RaiseOpenFilesLimit()) spdlog::warn("the limit of open files stays");
  std::signal(SIGPIPE, SIG_IGN);
  std::unique_ptr<lockstep::server::ParentWatch> parent_watch;  // until the server has gone

  if (options.etcd) {
    prctl(PR_SET_NAME, "lockstep-server");  // executed anew, it would be `exe`
    // While it stands by, there is nothing to finish.
    for (const int number : {SIGTERM, SIGINT}) std::signal(number, [](int) { _exit(0); });
  }
  if (options.parent != 0) {
    auto watch = lockstep::server::ParentWatch::Start(options.parent);
    if (!watch.ok()) {
      spdlog::error("{}", std::string(watch.status().message()));
      return 1;
    }
    parent_watch = *std::move(watch);
  }

  auto server = lockstep::server::Server::Listen(options);
  if (absl::IsAborted(server.status())) return BeginAnew(argv, server.status());
  if (!server.ok()) {
    spdlog::error("{}", std::string(server.status().message()));
    return server.status().code() == absl::StatusCode::kFailedPrecondition ? 2 : 1;
  }
  for (const std::string& line : (*server)->AddressLines()) std::puts(line.c_str());
  std::fflush(stdout);
  (*server)->DrainOnSignals();
  const absl::Status status = (*server)->Run();
  if (absl::IsAborted(status)) return BeginAnew(argv, status);
  if (!status.ok()) {
    spdlog::error("{}", std::string(status.message()));
    return 1;
  }
  return 0;
}

// `lockstep-server`, which `lockstep serve` executes. Exit codes: 0 drained, 1 could not serve,
// 2 wrong options.
#include <cerrno>
#include <csignal>
#include <cstdio>
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
  const auto& [options, warnings] = std::get<lockstep::server::ParsedOptions>(parsed);
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

  auto server = lockstep::server::Server::Listen(options);
  if (!server.ok()) {
    spdlog::error("{}", std::string(server.status().message()));
    return server.status().code() == absl::StatusCode::kFailedPrecondition ? 2 : 1;
  }
  for (const std::string& line : (*server)->AddressLines()) std::puts(line.c_str());
  std::fflush(stdout);
  (*server)->DrainOnSignals();
  if (options.parent != 0) {
    auto watch = lockstep::server::ParentWatch::Start(options.parent);
    if (!watch.ok()) {
      spdlog::error("{}", std::string(watch.status().message()));
      return 1;
    }
    parent_watch = *std::move(watch);
  }
  if (absl::Status status = (*server)->Run(); !status.ok()) {
    spdlog::error("{}", std::string(status.message()));
    return 1;
  }
  return 0;
}

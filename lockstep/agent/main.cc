// `lockstep-agent`, which `lockstep agent` and `lockstep run` execute. Exit codes: exit_code.h.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "grpc/support/log.h"
#include "lockstep/agent/agent.h"
#include "lockstep/agent/command_line.h"
#include "lockstep/agent/exit_code.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/open_files.h"
#include "lockstep/platform/runtime/standard_files.h"
#include "lockstep/platform/runtime/stop_signals.h"
#include "lockstep/platform/tls/calls.h"
#include "lockstep/platform/tls/openssl.h"
#include "lockstep/server/ready_file.h"

namespace {

void Say(const std::string& text) { std::fprintf(stderr, "lockstep-agent: %s\n", text.c_str()); }

// Whoever reads the log may have stopped, or be on the other side of the network that is cut.
void SayUnlessItBlocks(const std::string& why) {
  pollfd waits{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&waits, 1, 0) != 1) return;
  const std::string line =
      absl::StrCat("lockstep-agent: ", why, "; the processes of this host have to end\n");
  static_cast<void>(::write(STDERR_FILENO, line.data(), std::min<size_t>(line.size(), PIPE_BUF)));
}

int Serve(const lockstep::agent::ParsedCommand& command) {
  using namespace lockstep;
  runtime::Loop loop;
  int exit_code = 0;
  auto agent = agent::Agent::Start(loop, command.options,
                                   {.lost =
                                        [&](const absl::Status& why) {
                                          Say(std::string(why.message()));
                                          loop.Post([&] {
                                            exit_code = agent::kExitServerLost;
                                            loop.Stop();
                                          });
                                        },
                                    .cut_off =
                                        [](const std::string& why) {
                                          SayUnlessItBlocks(why);
                                          // Whatever else it does may take its time.
                                          ::_exit(agent::kExitCutOff);
                                        },
                                    .server_news = Say,
                                    .complain = Say});
  server::ReadyFile ready(command.ready_file);
  absl::Status status = agent.status();
  if (status.ok()) {
    status = ready.Write(server::ReadyText(
        {.listen = (*agent)->address(),
         .join = "",
         .pid = ::getpid(),
         .jobs = {{command.options.job,
                   {.grpc = (*agent)->address(), .store = (*agent)->torch_address()}}}}));
  }
  if (!status.ok()) {
    Say(std::string(status.message()));
    return agent::kExitFailed;
  }
  std::printf(
      "lockstep-agent: stock clients of job '%s' call %s, PyTorch's %s (MASTER_ADDR, "
      "MASTER_PORT)\n",
      command.options.job.c_str(), (*agent)->address().c_str(), (*agent)->torch_address().c_str());
  std::fflush(stdout);
  const runtime::StopSignals signals(loop, [&](int) { loop.Stop(); });
  loop.Run();
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::runtime::OpenStandardFiles();
  auto parsed = lockstep::agent::ParseCommandLine(argc, argv, lockstep::config::Environment());
  if (const auto* end = std::get_if<lockstep::agent::EndNow>(&parsed)) {
    std::fputs(end->text.c_str(), end->exit_code == 0 ? stdout : stderr);
    return end->exit_code;
  }
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  if (!lockstep::runtime::RaiseOpenFilesLimit()) {
    Say("cannot raise the limit of open files (ulimit -n)");
  }
  std::signal(SIGPIPE, SIG_IGN);
  lockstep::tls::InstallSecureCalls([] { return &lockstep::tls::LinkedOpenSsl(); });
  return Serve(std::get<lockstep::agent::ParsedCommand>(parsed));
}

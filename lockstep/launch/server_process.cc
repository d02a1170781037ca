#include "lockstep/launch/server_process.h"

#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "lockstep/launch/line_prefixer.h"

namespace lockstep::launch {

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(
    runtime::Loop& loop, Guardian& guardian, const std::string& label, const Command& command,
    const std::vector<std::string>& environment, const InheritedSignals& signals,
    Callbacks callbacks) {
  auto process = Process::Start(command, environment, signals, guardian);
  if (!process.ok()) return process.status();
  return std::unique_ptr<ServerProcess>(
      new ServerProcess(loop, label, *std::move(process), std::move(callbacks)));
}

ServerProcess::ServerProcess(runtime::Loop& loop, const std::string& label,
                             std::unique_ptr<Process> process, Callbacks callbacks)
    : process_(std::move(process)),
      callbacks_(std::move(callbacks)),
      output_(LogFrom(loop, label, process_->TakeOutput())),
      errors_(LogFrom(loop, label, process_->TakeErrors())),
      end_(loop.io(), process_->TakePidfd().release()) {
  end_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (!error) TakeEnd();
  });
}

std::unique_ptr<OutputPipe> ServerProcess::LogFrom(runtime::Loop& loop, const std::string& label,
                                                   runtime::UniqueFd fd) {
  const auto log = [this](const std::string& lines) {
    for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
      callbacks_.log(std::string(line));
    }
    return true;
  };
  return std::make_unique<OutputPipe>(loop, std::move(fd), LinePrefixer(label, -1), log, nullptr,
                                      [] {});
}

void ServerProcess::TakeEnd() {
  const std::optional<ExitStatus> ending = process_->PollExit();
  if (!ending) return;
  // Its last lines first: they say why it ended.
  output_->Drain();
  errors_->Drain();
  process_->Release();
  callbacks_.ended(*ending);
}

}  // namespace lockstep::launch

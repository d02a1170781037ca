#include "lockstep/launch/private_server.h"

#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::launch {

PrivateServer::PrivateServer(runtime::Loop& loop, Guardian& guardian, PrivateServerOptions options,
                             Callbacks callbacks)
    : loop_(loop),
      guardian_(guardian),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      timer_(loop) {}

void PrivateServer::Start() {
  // The watch first: it must not miss the file of a server that is quick.
  auto watch = ReadyFileWatch::Start(loop_, options_.folder,
                                     [this](const std::string& text) { OnReadyFile(text); });
  if (!watch.ok()) return Answer(watch.status());
  ready_file_ = *std::move(watch);
  if (absl::Status status = StartProcess(); !status.ok()) return Answer(status);
  timer_.Arm(runtime::MonotonicNow() + options_.start_timeout, [this] {
    Answer(absl::DeadlineExceededError(
        absl::StrCat(options_.name, " (pid ", process_->pid(), ") was not ready after ",
                     absl::FormatDuration(options_.start_timeout), LastWords())));
  });
}

absl::Status PrivateServer::StartProcess() {
  Command command = options_.command;
  command.arguments.push_back("--ready-file");
  command.arguments.push_back(ReadyFileWatch::PathIn(options_.folder));
  Environment environment = options_.environment;
  std::string& run_ids = environment["LOCKSTEP_RUN_ID"];
  absl::StrAppend(&run_ids, run_ids.empty() ? "" : ":", options_.run_id);
  auto process = ServerProcess::Start(
      loop_, guardian_, options_.label, command, Format(environment), options_.signals,
      {.log =
           [this](const std::string& line) {
             log_.Add(line);
             if (callbacks_.log) callbacks_.log(line);
           },
       .ended = [this](const ExitStatus& ending) { OnEnd(ending); }});
  if (!process.ok()) return process.status();
  process_ = *std::move(process);
  return absl::OkStatus();
}

void PrivateServer::OnReadyFile(const std::string& text) {
  if (std::holds_alternative<Starting>(state_)) Answer(ParseReadyFile(text, options_.job));
}

void PrivateServer::OnEnd(const ExitStatus& ending) {
  if (std::holds_alternative<Ended>(state_)) return;  // too late for `Stop`, which gave it up
  timer_.Cancel();
  if (std::holds_alternative<Stopping>(state_)) return FinishStop();
  const bool starting = std::holds_alternative<Starting>(state_);
  state_ = Ended{};
  if (starting) {
    callbacks_.ready(absl::UnavailableError(absl::StrCat(options_.name, " (pid ", process_->pid(),
                                                         ") ", Describe(ending),
                                                         " before it was ready", LastWords())));
  } else if (callbacks_.ended) {
    callbacks_.ended(ending);
  }
}

void PrivateServer::Answer(absl::StatusOr<JobAddress> address) {
  LOCKSTEP_DCHECK(std::holds_alternative<Starting>(state_));
  state_ = Answered{};
  timer_.Cancel();
  callbacks_.ready(std::move(address));
}

void PrivateServer::Stop(absl::AnyInvocable<void()> done) {
  LOCKSTEP_DCHECK(!std::holds_alternative<Stopping>(state_));  // `done` would be lost
  const bool ended = std::holds_alternative<Ended>(state_);
  state_ = Stopping{std::move(done)};
  if (process_ == nullptr || ended) return FinishStop();
  process_->Signal(SIGTERM);
  timer_.Arm(runtime::MonotonicNow() + options_.stop_timeout, [this] {
    process_->Signal(SIGKILL);
    // Then it hangs in the kernel; the guardian's SIGKILL will not do better.
    timer_.Arm(runtime::MonotonicNow() + options_.stop_timeout, [this] { FinishStop(); });
  });
}

void PrivateServer::FinishStop() {
  absl::AnyInvocable<void()> done = std::move(std::get<Stopping>(state_).done);
  state_ = Ended{};
  done();
}

}  // namespace lockstep::launch

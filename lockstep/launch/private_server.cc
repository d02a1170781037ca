#include "lockstep/launch/private_server.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lockstep/platform/runtime/unique_fd.h"
#include "nlohmann/json.hpp"

namespace lockstep::launch {
namespace {

constexpr char kReadyFile[] = "ready.json";

}  // namespace

absl::StatusOr<JobAddress> ParseReadyFile(const std::string& text, const std::string& job) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto text_at = [&json](const char* pointer) -> std::string {
    const nlohmann::json::json_pointer at(pointer);
    return json.contains(at) && json[at].is_string() ? json[at].get<std::string>() : "";
  };
  // A job's name may hold what a JSON pointer would take for its own.
  std::string grpc;
  std::string store;
  if (json.is_object() && json.contains("jobs") && json["jobs"].is_object() &&
      json["jobs"].contains(job) && json["jobs"][job].is_object()) {
    const nlohmann::json& entry = json["jobs"][job];
    if (entry.contains("grpc") && entry["grpc"].is_string()) grpc = entry["grpc"];
    if (entry.contains("store") && entry["store"].is_string()) store = entry["store"];
  }
  const std::string link = json.is_object() ? text_at("/listen") : "";
  if (link.empty() || grpc.empty()) {
    return absl::InternalError(
        absl::StrCat("the ready file of lockstep-server does not tell where job \"", job,
                     "\" is; do lockstep and lockstep-server have the same version? It says: ",
                     text.substr(0, 512)));
  }
  return JobAddress{.job = job, .link = link, .grpc = grpc, .store = store};
}

PrivateServer::PrivateServer(runtime::Loop& loop, Guardian& guardian, PrivateServerOptions options,
                             Callbacks callbacks)
    : loop_(loop),
      guardian_(guardian),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      timer_(loop) {}

PrivateServer::~PrivateServer() = default;

void PrivateServer::Start() {
  absl::Status status = WatchFolder();
  if (status.ok()) status = StartProcess();
  if (!status.ok()) {
    BecomeReady(status);
    return;
  }
  WaitForFolder();
  timer_.Arm(runtime::MonotonicNow() + options_.start_timeout, [this] {
    BecomeReady(absl::DeadlineExceededError(
        absl::StrCat("lockstep-server (pid ", process_->pid(), ") was not ready after ",
                     absl::FormatDuration(options_.start_timeout), LastWords())));
  });
}

absl::Status PrivateServer::WatchFolder() {
  const int fd = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (fd < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot watch a folder by inotify: ", std::strerror(errno)));
  }
  folder_changes_.emplace(loop_.io(), fd);
  if (::inotify_add_watch(fd, options_.folder.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE) < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot watch ", options_.folder, " by inotify: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status PrivateServer::StartProcess() {
  Command command = options_.command;
  command.arguments.push_back("--ready-file");
  command.arguments.push_back(absl::StrCat(options_.folder, "/", kReadyFile));
  Environment environment = options_.environment;
  std::string& run_ids = environment["LOCKSTEP_RUN_ID"];
  absl::StrAppend(&run_ids, run_ids.empty() ? "" : ":", options_.run_id);

  auto process = Process::Start(command, Format(environment), options_.signals, guardian_);
  if (!process.ok()) return process.status();
  process_ = std::move(*process);
  const auto log = [this](const std::string& lines) {
    OnLogLines(lines);
    return true;
  };
  output_ = std::make_unique<OutputPipe>(loop_, process_->TakeOutput(), LinePrefixer("server", -1),
                                         log, nullptr, [] {});
  errors_ = std::make_unique<OutputPipe>(loop_, process_->TakeErrors(), LinePrefixer("server", -1),
                                         log, nullptr, [] {});
  process_end_.emplace(loop_.io(), process_->TakePidfd().release());
  process_end_->async_wait(asio::posix::stream_descriptor::wait_read,
                           [this](const asio::error_code& error) {
                             if (!error) OnProcessEnded();
                           });
  return absl::OkStatus();
}

void PrivateServer::WaitForFolder() {
  folder_changes_->async_wait(
      asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
        if (error || ready_told_) return;
        // What changed does not matter: the file is there, or not yet.
        std::array<char, 4096> events;
        while (::read(folder_changes_->native_handle(), events.data(), events.size()) > 0) {
        }
        ReadReadyFile();
        if (!ready_told_) WaitForFolder();
      });
}

void PrivateServer::ReadReadyFile() {
  // With O_CLOEXEC, which a stream has not: processes may start on other threads meanwhile.
  const std::string path = absl::StrCat(options_.folder, "/", kReadyFile);
  const runtime::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return;
  std::string text;
  std::array<char, 4096> part;
  ssize_t count = 0;
  while ((count = ::read(file.get(), part.data(), part.size())) > 0) {
    text.append(part.data(), static_cast<size_t>(count));
  }
  BecomeReady(ParseReadyFile(text, options_.job));
}

void PrivateServer::OnProcessEnded() {
  const std::optional<Ending> ending = process_->PollEnding();
  if (!ending) return;
  ended_ = true;
  output_->Drain();
  errors_->Drain();
  process_->Release();
  timer_.Cancel();
  if (stopped_) {
    std::exchange(stopped_, nullptr)();
  } else if (!ready_told_) {
    BecomeReady(absl::UnavailableError(absl::StrCat("lockstep-server (pid ", process_->pid(), ") ",
                                                    Describe(*ending), " before it was ready",
                                                    LastWords())));
  } else if (callbacks_.ended) {
    callbacks_.ended(*ending);
  }
}

void PrivateServer::OnLogLines(const std::string& lines) {
  for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    log_.emplace_back(line);
    if (log_.size() > kServerLogLinesMax) log_.pop_front();
    if (callbacks_.log) callbacks_.log(log_.back());
  }
}

void PrivateServer::BecomeReady(absl::StatusOr<JobAddress> address) {
  if (ready_told_) return;
  ready_told_ = true;
  timer_.Cancel();
  callbacks_.ready(std::move(address));
}

void PrivateServer::Stop(absl::AnyInvocable<void()> done) {
  ready_told_ = true;
  if (process_ == nullptr || ended_) {
    done();
    return;
  }
  stopped_ = std::move(done);
  process_->Signal(SIGTERM);
  timer_.Arm(runtime::MonotonicNow() + options_.stop_timeout, [this] {
    process_->Signal(SIGKILL);
    timer_.Arm(runtime::MonotonicNow() + options_.stop_timeout, [this] {
      // It hangs in the kernel; the guardian's SIGKILL will not do better.
      if (stopped_) std::exchange(stopped_, nullptr)();
    });
  });
}

std::string PrivateServer::LastWords() const {
  if (log_.empty()) return "; it logged nothing";
  return absl::StrCat("; the last lines of its log:\n  ", absl::StrJoin(log_, "\n  "));
}

}  // namespace lockstep::launch

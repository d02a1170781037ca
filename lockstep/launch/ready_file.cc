#include "lockstep/launch/ready_file.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/platform/runtime/unique_fd.h"
#include "nlohmann/json.hpp"

namespace lockstep::launch {
namespace {

// Absent: there is no such file yet.
std::optional<std::string> TextOf(const std::string& path) {
  // With O_CLOEXEC, which a stream has not: processes may start on other threads meanwhile.
  const runtime::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return std::nullopt;
  std::string text;
  std::array<char, 4096> part;
  ssize_t count = 0;
  while ((count = ::read(file.get(), part.data(), part.size())) > 0) {
    text.append(part.data(), static_cast<size_t>(count));
  }
  return text;
}

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

ReadyFileWatch::ReadyFileWatch(runtime::Loop& loop, int inotify, std::string path,
                               std::function<void(std::string)> written)
    : changes_(loop.io(), inotify), path_(std::move(path)), written_(std::move(written)) {}

std::string ReadyFileWatch::PathIn(const std::string& folder) {
  return absl::StrCat(folder, "/ready.json");
}

absl::StatusOr<std::unique_ptr<ReadyFileWatch>> ReadyFileWatch::Start(
    runtime::Loop& loop, const std::string& folder, std::function<void(std::string)> written) {
  runtime::UniqueFd inotify(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (inotify.get() < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot watch a folder by inotify: ", std::strerror(errno)));
  }
  if (::inotify_add_watch(inotify.get(), folder.c_str(), IN_MOVED_TO | IN_CLOSE_WRITE) < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot watch ", folder, " by inotify: ", std::strerror(errno)));
  }
  std::unique_ptr<ReadyFileWatch> watch(
      new ReadyFileWatch(loop, inotify.release(), PathIn(folder), std::move(written)));
  watch->Wait();
  return watch;
}

void ReadyFileWatch::Wait() {
  changes_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [this](const asio::error_code& error) {
                        if (error) return;
                        // What changed does not matter: the file is there, or not yet.
                        std::array<char, 4096> events;
                        while (::read(changes_.native_handle(), events.data(), events.size()) > 0) {
                        }
                        if (std::optional<std::string> text = TextOf(path_)) {
                          written_(*std::move(text));
                        } else {
                          Wait();
                        }
                      });
}

}  // namespace lockstep::launch

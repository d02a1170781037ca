#include "lockstep/server/ready_file.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace lockstep::server {

std::string ReadyText(const ReadyFacts& facts) {
  nlohmann::ordered_json jobs = nlohmann::ordered_json::object();
  for (const auto& [job, addresses] : facts.jobs) {
    jobs[job] = {{"grpc", addresses.grpc}};
    if (!addresses.store.empty()) jobs[job]["store"] = addresses.store;
  }
  nlohmann::ordered_json ready = {
      {"listen", facts.listen}, {"join", facts.join}, {"pid", facts.pid}, {"jobs", jobs}};
  if (!facts.http.empty()) ready["http"] = facts.http;
  return ready.dump() + "\n";
}

namespace {

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Whether another process that wrote the file is still there; false for anything that we did not
// write. A file of this process is left from before it was executed anew.
bool WriterLives(const std::string& path) {
  const nlohmann::json ready =
      nlohmann::json::parse(Contents(path), nullptr, /*allow_exceptions=*/false);
  if (!ready.is_object() || !ready.contains("pid") || !ready["pid"].is_number_integer()) {
    return false;
  }
  const auto pid = ready["pid"].get<pid_t>();
  return pid != getpid() && (kill(pid, 0) == 0 || errno == EPERM);
}

}  // namespace

ReadyFile::ReadyFile(std::string path) : path_(std::move(path)) {
  if (!path_.empty() && !WriterLives(path_)) unlink(path_.c_str());
}

ReadyFile::~ReadyFile() {
  // Another server may have written its own by now, even in the same place of the disk.
  if (!written_.empty() && Contents(path_) == written_) unlink(path_.c_str());
}

absl::Status ReadyFile::Write(const std::string& text) {
  if (path_.empty()) return absl::OkStatus();
  const std::string unfinished = absl::StrCat(path_, ".", getpid());
  errno = 0;
  std::ofstream file(unfinished, std::ios::trunc);
  file << text;
  file.close();
  if (file && std::rename(unfinished.c_str(), path_.c_str()) == 0) {
    written_ = text;
    return absl::OkStatus();
  }
  const int error = errno;
  unlink(unfinished.c_str());
  return absl::UnavailableError(
      absl::StrCat("cannot write --ready-file ", path_, ": ", std::strerror(error)));
}

}  // namespace lockstep::server

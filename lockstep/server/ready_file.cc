#include "lockstep/server/ready_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace lockstep::server {

std::string ReadyText(const std::string& listen, int pid,
                      const std::map<std::string, std::string>& grpc_of_job) {
  nlohmann::ordered_json jobs = nlohmann::ordered_json::object();
  for (const auto& [job, grpc] : grpc_of_job) jobs[job] = {{"grpc", grpc}};
  const nlohmann::ordered_json ready = {{"listen", listen}, {"pid", pid}, {"jobs", jobs}};
  return ready.dump() + "\n";
}

ReadyFile::ReadyFile(std::string path) : path_(std::move(path)) {
  if (!path_.empty()) unlink(path_.c_str());
}

ReadyFile::~ReadyFile() {
  if (!path_.empty()) unlink(path_.c_str());
}

absl::Status ReadyFile::Write(const std::string& text) {
  if (path_.empty()) return absl::OkStatus();
  const std::string unfinished = absl::StrCat(path_, ".", getpid());
  errno = 0;
  std::ofstream file(unfinished, std::ios::trunc);
  file << text;
  file.close();
  if (file && std::rename(unfinished.c_str(), path_.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  unlink(unfinished.c_str());
  return absl::UnavailableError(
      absl::StrCat("cannot write --ready-file ", path_, ": ", std::strerror(error)));
}

}  // namespace lockstep::server

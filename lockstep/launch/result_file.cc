#include "lockstep/launch/result_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace lockstep::launch {

using nlohmann::json;

std::string ResultJson(const RunResult& result, const ResultAbout& about) {
  json processes = json::array();
  for (const RunResult::Process& process : result.processes) {
    processes.push_back(
        {{"member", process.member},
         {"name", absl::StrCat(about.role, "/", process.member)},
         {"pid", process.pid},
         {"started", process.started},
         {"exit_code", process.ending.signal == 0 ? json(process.ending.exit_code) : json(nullptr)},
         {"signal",
          process.ending.signal == 0 ? json(nullptr) : json(SignalName(process.ending.signal))},
         {"seconds", absl::ToDoubleSeconds(process.lasted)},
         {"error", process.error},
         {"last_lines", process.last_lines}});
  }
  const json all = {
      {"version", kResultVersion},
      {"job", about.job},
      {"host", about.host},
      {"outcome", result.outcome},
      {"exit_code", result.exit_code},
      {"why", result.why},
      {"cause", result.cause},
      {"first_failed", result.first_failed ? json(*result.first_failed) : json(nullptr)},
      {"attempts", result.attempts},
      {"seconds", absl::ToDoubleSeconds(result.lasted)},
      {"attempts_before", result.past},
      {"processes", std::move(processes)}};
  // What processes write may be any bytes.
  return absl::StrCat(all.dump(2, ' ', false, json::error_handler_t::replace), "\n");
}

absl::Status WriteResult(const std::string& path, const RunResult& result,
                         const ResultAbout& about) {
  const std::string beside = absl::StrCat(path, ".", ::getpid());
  std::ofstream out(beside, std::ios::binary | std::ios::trunc);
  out << ResultJson(result, about);
  out.close();
  if (!out.fail() && std::rename(beside.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const int error = errno;
  ::unlink(beside.c_str());
  return absl::UnknownError(
      absl::StrCat("cannot write the result to ", path, ": ", std::strerror(error)));
}

}  // namespace lockstep::launch

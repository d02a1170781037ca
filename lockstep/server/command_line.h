// The options of `lockstep-server`: one declaration each gives flag, help and check.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/server/options.h"

namespace lockstep::server {

// The program is to end now: help or version was asked for (0), or the options are wrong (2).
struct EndNow {
  int exit_code = 0;
  std::string text;  // for stdout when the exit code is 0, else for stderr
};

// What was asked for, and warnings about it.
struct ParsedOptions {
  ServerOptions options;
  std::vector<std::string> warnings;
};

std::variant<ParsedOptions, EndNow> ParseCommandLine(int argc, const char* const* argv);

// "NAME=SIZE" or "NAME=SIZE@HOST:PORT".
absl::StatusOr<JobOptions> ParseJob(const std::string& text);

// "90s", "5m", "1h30m", "200ms". Finite and not negative; `option` is named in the error.
absl::StatusOr<absl::Duration> ParseDuration(const std::string& option, const std::string& text);

}  // namespace lockstep::server

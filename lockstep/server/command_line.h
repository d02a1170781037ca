// The command line of `lockstep-server`. Its options are declared in option_declarations.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/platform/config/end_now.h"
#include "lockstep/platform/config/option_table.h"
#include "lockstep/server/options.h"

namespace lockstep::server {

using config::EndNow;

// What was asked for, and warnings about it.
struct ParsedOptions {
  ServerOptions options;
  std::vector<std::string> warnings;
};

// Also looks into the environment and, when one is named, into a file of options.
std::variant<ParsedOptions, EndNow> ParseCommandLine(int argc, const char* const* argv);
// The same with other variables than the process's own.
std::variant<ParsedOptions, EndNow> ParseCommandLine(
    int argc, const char* const* argv, const config::OptionTable::Variables& variables);

// "NAME=SIZE" or "NAME=ROLE:SIZE,ROLE:SIZE", and "@HOST:PORT" behind it or not.
absl::StatusOr<JobOptions> ParseJob(const std::string& text);

}  // namespace lockstep::server

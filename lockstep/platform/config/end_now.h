// What a program does whose command line does not let it run.
#pragma once

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace lockstep::config {

// The program is to end now: help or version was asked for (0), or the options are wrong (2).
struct EndNow {
  int exit_code = 0;
  std::string text;  // for stdout when the exit code is 0, else for stderr
};

// Nothing: `app`, whose name is the program's, has parsed the command line.
std::optional<EndNow> Parse(CLI::App& app, int argc, const char* const* argv);
// Of options that are wrong, as `why` says.
EndNow WrongOptions(const CLI::App& app, const absl::Status& why);

}  // namespace lockstep::config

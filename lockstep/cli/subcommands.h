// The subcommands of `lockstep`. Each stands in a file of its own name.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace lockstep::cli {

// Each adds itself to `app`. When the command line names it, it does its work while CLI11 parses
// and leaves in `exit_code` what the program is to end with (docs/cli.md).
void AddServe(CLI::App& app, int& exit_code);

// `from_dashes` is the command line from `--` on, which CLI11 does not get to see; may be empty.
void AddRun(CLI::App& app, const std::vector<std::string>& from_dashes, int& exit_code);

// `lockstep serve ARGUMENTS...`: becomes the server. Returns only when that fails.
int ExecuteServer(int argc, char** argv);

}  // namespace lockstep::cli

// The subcommands of `lockstep`. Each stands in a file of its own name.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "lockstep/cli/server_command.h"

namespace lockstep::cli {

// Each adds itself to `app`. When the command line names it, it does its work while CLI11 parses
// and leaves in the invocation what the program is to end with (docs/cli.md).
void AddServe(CLI::App& app, Invocation& invocation);
void AddAgent(CLI::App& app, Invocation& invocation);
void AddStatus(CLI::App& app, Invocation& invocation);
void AddWhy(CLI::App& app, Invocation& invocation);
void AddBundle(CLI::App& app, Invocation& invocation);
void AddStacks(CLI::App& app, Invocation& invocation);
void AddMembers(CLI::App& app, Invocation& invocation);
void AddHosts(CLI::App& app, Invocation& invocation);
void AddBarriers(CLI::App& app, Invocation& invocation);
void AddRendezvous(CLI::App& app, Invocation& invocation);
void AddData(CLI::App& app, Invocation& invocation);
void AddKv(CLI::App& app, Invocation& invocation);
void AddJobs(CLI::App& app, Invocation& invocation);  // `jobs` and `job`
void AddEvents(CLI::App& app, Invocation& invocation);
void AddPreempt(CLI::App& app, Invocation& invocation);
void AddReportProcesses(CLI::App& app, Invocation& invocation);
void AddWorker(CLI::App& app, Invocation& invocation);
void AddConfig(CLI::App& app, Invocation& invocation);
void AddAuth(CLI::App& app, Invocation& invocation);
void AddToken(CLI::App& app, Invocation& invocation);

// `from_dashes` is the command line from `--` on, which CLI11 does not get to see; may be empty.
void AddRun(CLI::App& app, const std::vector<std::string>& from_dashes, Invocation& invocation);

// `lockstep serve ARGUMENTS...`: becomes the server, with these arguments. Returns only when that
// fails. `command`: as people typed it.
int ExecuteServer(const std::string& command, const std::vector<std::string>& arguments);
// `lockstep agent ARGUMENTS...`: likewise.
int ExecuteAgent(const std::vector<std::string>& arguments);

}  // namespace lockstep::cli

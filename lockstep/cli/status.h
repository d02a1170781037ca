// `lockstep status`: what the server knows about its jobs.
#pragma once

#include <ostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/time/time.h"

namespace lockstep::cli {

// How `lockstep status` ends; docs/cli.md. What CLI11 refuses to parse ends with 2 as well.
enum StatusExit {
  kStatusFine = 0,
  kStatusTrouble = 1,  // a job failed, or has members that are lost or failed
  kStatusUsage = 2,
  kStatusUnreachable = 3,  // no server, or none of ours
  kStatusRefused = 4,      // the server answered with an error, such as: no such job
};

struct StatusOptions {
  std::string coordinator = "127.0.0.1:7070";
  std::string job;  // empty: all
  std::string output = "table";
  absl::Duration timeout = absl::Seconds(5);
};

// Adds the subcommand, which fills `options`. The caller runs `Status` when it was given.
CLI::App* AddStatusCommand(CLI::App& app, StatusOptions& options);

// Asks and prints; returns the exit code. Takes no longer than twice the time-out.
int Status(const StatusOptions& options, std::ostream& out, std::ostream& err);

}  // namespace lockstep::cli

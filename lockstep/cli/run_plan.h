// What a `lockstep run` is going to do, settled before anything is started.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/cli/run_notices.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/launch/detect.h"
#include "lockstep/launch/launcher.h"
#include "lockstep/launch/nodes.h"
#include "lockstep/launch/private_server.h"

namespace lockstep::cli {

struct Plan {
  launch::LauncherOptions launcher;  // its address is not set when a server is to be started
  std::unique_ptr<RunNotices> notices;
  std::optional<launch::PrivateServerOptions> server;
  std::optional<launch::PrivateServerOptions> agent;  // its command lacks the server's address
  bool agent_fences = true;                           // --on-partition stop
  absl::Duration agent_patience = absl::Minutes(10);  // of its part for torch
  launch::Nodes nodes;
  launch::Detected detected;
  std::string host;
  uint64_t node_id = 0;                   // one life of this launcher
  std::vector<int> signals;               // that are passed on
  std::vector<std::string> result_files;  // where result.json is written
  std::string bundle_folder;              // empty: no bundle of a failure
  absl::Duration join_timeout;
  absl::Duration last_call;
  int64_t attempt_before = 0;    // of the job; the run's first is the one after it
  bool counts_attempts = false;  // the processes are told which they are started for
  std::string runs_already;      // what to say of another run of the job; empty: nothing
  std::string differs;           // what to say of a job that is not as the processes' variables ask
  bool job_missing = false;      // the server does not have it: only looked at, see MakePlan
};

// What is wrong with the options, or with what they name, is told before anything is started;
// `failure` is then the exit code. A job of several nodes that the server does not have is made,
// unless the options say that nothing is to be done.
absl::StatusOr<Plan> MakePlan(const RunOptions& options, int& failure);

// Of the job's attempt after `restarts` restarts.
int64_t NumberOf(const Plan& plan, int32_t restarts);

// Sets what belongs to the attempt after `restarts` restarts, but for addresses.
void SetAttempt(const Plan& plan, int32_t restarts, launch::RunEnvironment& environment);

// `--print-env`, `--dry-run`: to standard output.
void PrintEnvironment(const RunOptions& options, const Plan& plan);
void PrintPlan(const RunOptions& options, const Plan& plan);

}  // namespace lockstep::cli
